"""Rules of Deployments, Jobs and their like."""
