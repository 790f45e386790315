"""Attached to a Kubernetes that is not fathom's: what it has, what is installed there, a copy of its objects.

    foreign API server ──list, watch──> mirror ──commit──> store ──> watch cache ──> questions, pages, lists

The local API server answers from the copy and refuses every write. Nothing here decides, and nothing here
writes to the foreign cluster but `installing`, with the user's consent. Next room: `cli/cluster/attach.py`.
"""
