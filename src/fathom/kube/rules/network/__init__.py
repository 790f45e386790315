"""Rules of Services, endpoints and ingresses."""
