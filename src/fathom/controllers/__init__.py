"""One file per controller, and in it the pure `plan_*` that decides.

The three that an API cannot do without are here: garbage collection, the end of namespaces, the end of
custom kinds. They run beside the API server, read its own view, and write through its front door.
"""
