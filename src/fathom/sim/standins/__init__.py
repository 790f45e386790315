"""Small controllers on the real kit, where a story is about something else than they are.

`agent` runs the pods of all nodes at once, in a weather that the story makes: real agents are in the stories
about agents and whole clusters. `cleanup` is a user's controller that keeps things outside the cluster, with
a finalizer. Never here: anything that `fathom up` starts, and anything that stands in for a real controller.
"""
