"""What kinds there are, from data: the built-in definitions, `kinds.toml`, our own kinds, users' CRDs.

Here: kinds, their schemas, decoding, discovery and OpenAPI documents made from them. Never here: what
happens to an object.
"""
