"""The timeline of one object: what was done to it and around it, by whom, and what caused what.

`timeline` has the types, `wanted` says which records are needed, `answer` makes a Timeline from evidence.
Each source of entries has its own file. They are joined by UID and revision, never by name alone. `lines` is
for readers. The simulator's chronicle is the second source of the same type (`sim/report/timeline.py`).
"""
