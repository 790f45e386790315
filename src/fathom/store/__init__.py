"""The revisioned store: one protocol like etcd's, three engines (`memory`, `sqlite`, `etcd`).

Here: keys, bodies and revisions. Never here: what a key means, who may write it, or a retry of a commit
whose outcome is unknown. Next room: `api`.
"""
