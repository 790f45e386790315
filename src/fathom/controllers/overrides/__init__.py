"""SchedulerOverrides: who has observed one, what it does, and the proof that nothing of it is left.

acknowledging   each controller of the process says which generation its cache has
plan_changes    per change: in force, matching nothing, or declined
plan_status     the status of an override that has not ended
plan_evictions  which pods are evicted next, for a drain and for `onEnd: move`
plan_routes     the TrafficRoute of an override's weights, and its restoration
effects         what carries its mark on nodes, reservations and roles, recorded before the mark can go
plan_end        what the end undoes, and what is left: the residue
plan            the stages of an override, from its finalizer to its proof

Enforcement is elsewhere: in the scheduler, in the other controllers, and in the API server's commits.
"""
