"""Rules of nodes, namespaces, quotas and other objects of the cluster."""
