"""The kinds of fathom.dev/v1alpha1: one file per kind, and the table of them in `all.py`.

A kind's file has its Struct, from which its schema is derived, its names and columns (`DEFINITION`), its
rules beyond the schema, and the predicates that all processes must share (`override_active`, ...).
`schema.py`, `shape.py`, `definition.py` and `values.py` are what these files are built from.

Never here: how a request is served (`api/`), a clock, a store. Only `model` and `seams` are imported.
"""
