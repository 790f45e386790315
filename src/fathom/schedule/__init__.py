"""The scheduler: pods in, placements out, each with its reasons.

`decide/` is the decision, and pure: `pods` and `node_table` hold what it sees, `filters/` and `scores/` are
its rules in the order of `rules`, `place` applies them, `preempt` says which pods would have to leave.
`loop/` is what runs around it: `queue` says which pod is next; `pod_states` which moves of a pod are legal,
and `pod_moves` makes them; `scheduler` is the loop itself. `cache_updates` keeps `state` in step with the
caches, `deciding` places and records (`decision_records`), `committing` sends bind requests until each
outcome is known, `preemption` evicts and reserves, `waking` retries pods that an event may help.
`policy_rollout/` is the controller of PolicyRollouts. What is decided here is checked again by `api/binding`,
in the commit that binds; it trusts none of it.
"""
