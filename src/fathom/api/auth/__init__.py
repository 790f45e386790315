"""Who is asking, and may they: certificates, tokens, RBAC, nodes, reviews.

    request --authenticate--> User --authorize(Target)--> Decision
    write   --check_escalation, restrict_node (admission)--> the verb

Here: pure judgements over the request and a View, each cached and bounded. Never here: sockets (the HTTP
shell hands over a verified certificate), storage, or what an allowed request then does. Only `certificates`
touches files.
"""
