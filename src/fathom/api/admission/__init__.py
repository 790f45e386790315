"""Admission: between what a caller wants and what is stored. Plugins may change it, refuse it, and say what
must be true or written in the same commit.

    mutate, in order  ──>  validate, in order  ──>  charge, in order  ──>  the write path's one commit

Here: the chain, the built-in plugins in Kubernetes' order, and the door for users' own (docs/admission.md).
Plugins read the cluster through a `View` and decide; they never write, wait or read a clock.
"""
