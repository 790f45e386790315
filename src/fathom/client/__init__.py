"""Clients of a Kubernetes API: over HTTP, through a Seam, or inside the server's own process.

Here: requests, credentials, kubeconfig, outcomes of writes. Never here: which objects to read or write. Next
room: `cache`."""
