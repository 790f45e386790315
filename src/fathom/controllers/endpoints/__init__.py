"""EndpointSlices and Endpoints of Services: `plan` from ready pods, `plan_mirroring` from Endpoints kept by
hand."""
