"""Admission: plugins may change or refuse a write, and add preconditions and writes to its commit.

    mutate, in order  ──>  validate, in order  ──>  charge, in order  ──>  the write path's one commit

Here: the chain, the built-in plugins in Kubernetes' order, and the interface for users' own
(docs/admission.md). Plugins read the cluster through a `View` and decide; they never write, wait or read a
clock.
"""
