"""Node health: what is known of nodes, and what is done about silent or failing ones.

`evidence` has the states (Healthy, Suspect, Unreachable, Lost), their times and the rules between them;
`plan` the conditions and taints that follow, `plan_evictions` which pods leave; `brake` limits both per zone,
and `brake_status` shows it. Other sources of evidence: `api_connections`, `gateway_reports`. `trust` and
`plan_trust` are about nodes on which starts fail: they are quarantined. `events` are told of changes.
"""
