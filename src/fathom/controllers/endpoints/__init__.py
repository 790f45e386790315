"""EndpointSlices and Endpoints of Services."""
