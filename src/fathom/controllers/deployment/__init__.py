"""Deployments: one ReplicaSet per revision.

`controller` reads and writes; `plan` says how many pods each revision should have, `plan_status` computes the
status, `plan_rollback` when a Deployment rolls back by itself; `revisions` finds and numbers ReplicaSets,
`proportions` reads surge and unavailability.
"""
