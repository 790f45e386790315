"""HorizontalPodAutoscalers.

`controller` reads what decides: pods, their use of resources (`_fetch_samples`), progress.
`plan_metrics.propose` turns each metric into a number of replicas, by its type; `plan` takes the largest, and
`plan.blocker` says what holds growth back; `plan_behavior` limits how fast it goes. `scale_target` is what is
scaled, `scale_rights` the right to scale custom kinds.
"""
