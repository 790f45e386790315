"""The status of PodDisruptionBudgets."""
