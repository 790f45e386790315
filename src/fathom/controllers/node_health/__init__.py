"""Node health: what is known of nodes, and what is done about silent or failing ones.

`evidence` has the states (Healthy, Suspect, Unreachable, Lost), their times and the rules between them;
`plan` the conditions and taints that follow, `plan_evictions` which pods are evicted; `brake` limits both per
zone, and `brake_status` shows it. Other sources of evidence: `api_connections`, `gateway_reports`. `trust`
and `plan_trust` quarantine nodes on which starts fail. `events` has the Events about changes.
"""
