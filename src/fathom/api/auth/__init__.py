"""Authentication and authorization: certificates, tokens, RBAC, nodes, reviews.

    request --authenticate--> User --authorize(Target)--> Decision
    write   --check_escalation, restrict_node (admission)--> the verb

Here: pure decisions over the request and a View, each cached and bounded. Never here: sockets (the HTTP shell
hands over a verified certificate), storage, or the work of an allowed request. Only `certificates` touches
files.
"""
