"""`fathom chaos`: any program that talks to the Kubernetes API, over real HTTPS, while things go wrong.

    program ──HTTPS──> proxy (faults) ──HTTPS──> API server (a process) ──> store.db
                                                                              │ every commit, and who made it
    story (what a person applies and deletes) ──HTTPS──> API server           └──> checkers ──> report

`schedule` says from a seed what goes wrong and when; `proxy`, `server` and `program` let it happen; `commits`
reads what was written, and `run` asks the checkers of `sim` about it.

Here: what is live. Never here: a second version of faults or invariants, those of `sim` are used. The
schedule of faults follows from the seed; the program's own timing does not.
"""

from __future__ import annotations
