"""Runs in the API server: garbage collection, namespaces, quotas, expiry of Events."""
