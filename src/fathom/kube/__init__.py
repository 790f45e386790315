"""Kubernetes' own kinds: their definitions, rules for their objects, table columns, patches."""
