"""Runs in the API server: garbage collection, the end of namespaces and custom kinds, quotas, expiry of
Events.

`controller` has one queue and one worker for each; `plan_garbage` decides what `garbage_collector` carries
out.
"""
