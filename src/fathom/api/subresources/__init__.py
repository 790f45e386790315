"""Subresources with a life of their own: scale, binding, eviction, token, finalize. `status` is not here: it
is an ordinary update (`verbs/update`)."""
