"""Rules of Deployments, Jobs and other workloads."""
