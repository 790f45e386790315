"""How everyone but the API server talks to an API. Today: in process, through the same `handle` that the
network reaches. Never here: what is asked for. Next room: `cache`."""
