"""Subresources that are more than a part of their object: one file each. (`status` is not here:
`verbs/update`.)

To add one: its function goes here, a line for it into the table `SUBRESOURCES` of `api/dispatch.py`, and its
name and verbs into `kube/definitions/kinds.toml`, so that discovery and OpenAPI name it.
"""
