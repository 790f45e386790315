"""Controllers in the API server: garbage collection, deletion of namespaces and custom kinds, quotas, Events.

`controller` has one queue and one worker for each; `plan_garbage` decides what `garbage_collector` carries
out; `event_expiry` deletes old Events.
"""
