"""Guardrails of SchedulerOverrides: who may write which change, how far it may reach, what contradicts what,
who must approve.

`plugin` and `review_plugin` are the admission plugins; the rest decides, from the override and a View alone.
What needs no other object is checked before, in `kinds/override_validation`. Enforcement of what an override
says is not here.
"""
