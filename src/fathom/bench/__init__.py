"""Load drivers: the same measured load for fathom and for any other Kubernetes API server.

Here: what a client on the far side of TLS can see (rates, latencies, whether every event arrived), and how
much memory and CPU the server took for it. Never here: the server's own code; a driver runs in another
process and shares nothing with it but the wire. Next room: `cli`, which prints the results.
"""
