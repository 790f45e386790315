"""The status of PodDisruptionBudgets, from which evictions are allowed or refused."""
