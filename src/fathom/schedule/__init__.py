"""The scheduler: pods in, placements out, each with its reasons.

The pure part decides: `pods` and `node_table` hold what it sees as columns, `filters` and `scores` are its ordered
rules, `place` applies them, `preempt` says who would have to leave. Around it, `queue` says who is next,
`pod_states` which moves of a pod are legal, and `pod_moves` makes them, alone.
`scheduler` is the loop: `cache_updates` keeps the `state` in step with the caches, `waking` asks whom news helps,
`deciding` places and records, `committing` sends until each outcome is known, `preemption` evicts and
reserves; `decision_records` says why. What is decided here is proved by the API's ledger at the commit, which trusts
none of it. Next room: commit, in `api`.
"""
