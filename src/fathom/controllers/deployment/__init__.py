"""Deployments: one ReplicaSet per revision, rolled out within surge and unavailability."""
