"""The scheduler: pods in, placements out, each with its reasons.

`decide/` makes the decision and is pure: `pods` and `node_table` hold its input, `filters/` and `scores/` are
its rules in the order of `rules`, `place` applies them, `preempt` chooses the pods that would be evicted.
`loop/` runs it: `queue` chooses the next pod; `pod_states` lists the legal moves of a pod, and `pod_moves`
makes them; `scheduler` is the loop itself. `cache_updates` keeps `state` in step with the caches, `deciding`
places and records (`decision_records`), `committing` sends bind requests until each outcome is known,
`preemption` evicts and reserves, `waking` retries pods that an event may help. `policy_rollout/` is the
controller of PolicyRollouts. `api/binding` checks every placement again, in the commit that binds the pod; it
does not trust the scheduler.
"""
