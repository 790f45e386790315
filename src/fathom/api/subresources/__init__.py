"""Subresources with code of their own, one file each. (`status` is not here: see `verbs/update`.)

To add one: put its function here, a line for it into the table `SUBRESOURCES` of `api/dispatch.py`, and its
name and verbs into `kube/definitions/kinds.toml`, so that discovery and OpenAPI name it.
"""
