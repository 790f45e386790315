"""The live side of the process driver: real processes, files, sockets.

It runs on the host's loop, behind the seam, and makes no decisions. Next room: `agent.live`, which wires it.
"""
