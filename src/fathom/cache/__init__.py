"""What a process knows of the cluster: lists and watches kept as indexed, snapshotable caches.

Here: how fresh it is, and how it got here. Never here: truth; a cache finds candidates, the authoritative
write proves. Next rooms: `record`, `control`.
"""
