"""Which parts of the control plane can change each other's inputs without calling each other.

`actors.py` collects what every part declares, `links.py` finds the forms of coupling between them,
`answer.py` answers a question from the declarations and the audit log, `texts.py` words it, and `fights.py`
finds two writers that undo each other, and values that swing, in the stream of committed writes. All of it is
pure.
"""
