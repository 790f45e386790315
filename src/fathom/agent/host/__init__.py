"""The live side of the process driver: real processes, files, sockets. On the host's loop, behind the seam;
nothing here decides what is to be done. Next room: `agent.live`, which wires it."""
