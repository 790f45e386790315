"""HorizontalPodAutoscalers.

`controller` reads the inputs: pods, their use of resources (`_fetch_samples`), progress.
`plan_metrics.propose` turns each metric into a number of replicas, by its type; `plan` takes the largest, and
`plan.blocker` says what holds scaling up back; `plan_behavior` limits how fast it scales. `scale_target` is
what is scaled, `scale_rights` the right to scale custom kinds.
"""
