"""One file per controller, and beside it the pure `plan_*` that decides.

Three that an API cannot do without run beside the API server, read its own view, and write through its front
door: garbage collection, the end of namespaces, the end of custom kinds (`housekeeping/controller`). The others are
written with the kit and run in a process of their own (`all`): workloads and their pods, endpoints,
disruption budgets, progress, autoscalers, nodes, repair. Never here: who runs a container, where a pod goes.
"""
