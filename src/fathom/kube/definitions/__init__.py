"""The kinds that the API serves: the built-in definitions, `kinds.toml`, fathom's own kinds, users' CRDs.

Here: kinds, their schemas, decoding, discovery and OpenAPI documents made from them. Never here: reads and
writes of objects.
"""
