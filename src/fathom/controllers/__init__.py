"""The controllers, one package each: `controller.py` reads and writes, `plan*.py` decides and is pure.

`housekeeping/` runs in the API server, because an API cannot do without it: garbage collection, deletion of
namespaces and of custom kinds, quotas. The others are written with the kit in `control/` and run in a process
of their own; `all.py` lists them. Modules that several of them share are beside the packages. Never here:
running containers (`agent/`), choosing nodes (`schedule/`).
"""
