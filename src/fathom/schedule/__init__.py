"""The scheduler: pods in, placements out, each with its reasons.

The pure part decides: `pods` and `table` hold what it sees as columns, `filters` and `scores` are its ordered
rules, `place` applies them, `preempt` makes room. Around it, `queue` says who is next, `scheduler` keeps the
table in step with the caches and sends what was decided, `records` says why. What is decided here is proved
by the API's ledger at the commit, which trusts none of it. Next room: commit, in `api`.
"""
