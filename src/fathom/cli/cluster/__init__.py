"""The commands that run a cluster: up, down, attach, demo, doctor, serve, store, docs."""
