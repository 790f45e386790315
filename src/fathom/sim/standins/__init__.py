"""Small controllers on the real reconcile kit, for scenarios that test something else.

`agent` runs the pods of all nodes at once, with failures (`Weather`) that the scenario sets; scenarios about
agents and whole clusters use real agents. `cleanup` is a user's controller that keeps things outside the
cluster, with a finalizer. Never here: anything that `fathom up` starts, or that replaces a real controller.
"""
