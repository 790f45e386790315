"""Load drivers: they measure fathom and any other Kubernetes API server under the same load.

Here: what a client on the far side of TLS can see (rates, latencies, whether every event arrived), and how
much memory and CPU the server took for it. Never here: the server's own code; a driver runs in another
process and shares nothing with it but the wire. Next package: `cli`, which prints the results.
"""
