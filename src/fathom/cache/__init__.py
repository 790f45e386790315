"""Caches of cluster objects: filled by lists and watches, indexed, read through immutable snapshots.

Here: the objects, how fresh they are, and how they are kept up to date. Never here: the authoritative state;
a cache finds candidates, and the API server checks the write. Next rooms: `record`, `control`.
"""
