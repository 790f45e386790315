"""The API server without its transport, `handle(Request) -> Response | Stream`, and its HTTP shell.

Here: the requests that a Kubernetes client may send, and their answers. Never here: reconciling, deciding
placements, or how bytes reach a socket (except in `http`). Next packages: `client` and `cache`, on the other
side of the wire.
"""
