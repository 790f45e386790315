"""EndpointSlices and Endpoints of Services.

`plan` makes them from ready pods, `plan_mirroring` makes slices from Endpoints that are kept by hand.
"""
