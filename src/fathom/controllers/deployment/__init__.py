"""Deployments: one ReplicaSet per revision.

`controller` reads and writes; `plan` says how many pods each revision should have, `plan_status` what the
status says, `plan_rollback` when a Deployment goes back by itself; `revisions` finds and numbers ReplicaSets,
`proportions` reads surge and unavailability.
"""
