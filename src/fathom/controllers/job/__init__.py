"""Jobs: pods run to completion, counted once each.

`plan` says what a Job does next; `plan_counts` which pods have ended, `plan_failure_policy` what failures and
successes mean, `plan_pods` how pods are named and created, `completion_indexes` reads and writes lists of
indexes.
"""
