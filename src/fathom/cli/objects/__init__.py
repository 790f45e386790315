"""`fathom get | describe | apply | create | patch | delete | logs | scale | rollout` and others: what kubectl
does, where there is none.

Kinds come from the server's discovery and columns from its tables, so these commands know every kind that the
server has, and work with any Kubernetes API server. Flags and output are kubectl's for the common cases; what
is missing here, kubectl has. No event loop is loaded.
"""
