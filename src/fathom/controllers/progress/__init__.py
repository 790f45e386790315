"""WorkloadProgress: how far each workload has come, and what holds it.

`controller` reads and writes; `plan` makes the status. `pod_stages` says how far one pod is and why it waits,
`missing_pods` why pods are not created, `crash_loops` which keep crashing, `last_actions` what was last done
or went wrong. The fields are declared in `kinds/workload_progress.py`.
"""
