"""What Kubernetes is: definitions of its kinds, rules for their objects, table columns, patches."""
