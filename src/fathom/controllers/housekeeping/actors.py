"""What the controllers in the API server's process read and write. They read the server's own watch cache,
and write through the same path as everybody else."""

from __future__ import annotations

from fathom.controllers.housekeeping.event_expiry import EXPIRE_S
from fathom.controllers.housekeeping.namespaces import RECHECK_S
from fathom.controllers.housekeeping.resource_quotas import EVERY_S as QUOTAS_EVERY_S
from fathom.controllers.housekeeping.stopped_acknowledgers import EVERY_S as ACKNOWLEDGERS_EVERY_S
from fathom.controllers.housekeeping.tenant_quotas import EVERY_S as TENANTS_EVERY_S
from fathom.model.accounts import HOUSEKEEPING as ACCOUNT
from fathom.model.declared import API_SERVER, GARBAGE_QUEUE, Actor, Reads, Timer, Writes

PROCESS = "api-server"
# The collector and the namespace controller act on objects of every kind.
ANY_KIND = "*"

GARBAGE = Actor(
    name="housekeeping/garbage-collector",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads(ANY_KIND, ("metadata",)),),
    writes=(Writes(ANY_KIND, ("metadata.finalizers", "metadata.ownerReferences"), deletes=True),),
    woken_by=(ANY_KIND,),
    waits_in=(GARBAGE_QUEUE,),
    calls=(API_SERVER,),
)
NAMESPACES = Actor(
    name="housekeeping/namespaces",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads(ANY_KIND, ("metadata",)), Reads("Namespace")),
    writes=(
        Writes(ANY_KIND, (), deletes=True),
        Writes("Namespace", ("spec.finalizers", "status"), deletes=True),
        Writes("ServiceAccount", creates=True),
    ),
    woken_by=("Namespace",),
    calls=(API_SERVER,),
    timers=(Timer("contents of a terminating namespace", RECHECK_S),),
)
DEFINITIONS = Actor(
    name="housekeeping/custom-definitions",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads("CustomResourceDefinition"), Reads(ANY_KIND, ("metadata",))),
    writes=(
        Writes("CustomResourceDefinition", ("metadata.finalizers", "status"), deletes=True),
        Writes(ANY_KIND, (), deletes=True),
    ),
    woken_by=("CustomResourceDefinition",),
    calls=(API_SERVER,),
)
SCALE_RIGHTS = Actor(
    name="housekeeping/scale-rights",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads("CustomResourceDefinition", ("spec",)), Reads("ClusterRole", ("metadata", "rules"))),
    writes=(Writes("ClusterRole", ("rules",)),),
    woken_by=("CustomResourceDefinition", "ClusterRole"),
    calls=(API_SERVER,),
)
# At the start of an API server: `api/auth/bootstrap.py`.
BOOTSTRAP_KINDS = ("ClusterRole", "ClusterRoleBinding", "Namespace", "RoleBinding", "SteeringLimits")
BOOTSTRAP = Actor(
    name="housekeeping/bootstrap",
    process=PROCESS,
    account=ACCOUNT,
    reads=tuple(Reads(kind) for kind in BOOTSTRAP_KINDS),
    writes=tuple(Writes(kind, ("*",), creates=True) for kind in BOOTSTRAP_KINDS),
    calls=(API_SERVER,),
)
QUOTAS = Actor(
    name="housekeeping/resource-quotas",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads("ResourceQuota"), Reads("Pod", ("spec", "status.phase"))),
    writes=(Writes("ResourceQuota", ("status",)),),
    calls=(API_SERVER,),
    timers=(Timer("recount", QUOTAS_EVERY_S),),
)
TENANTS = Actor(
    name="housekeeping/tenant-quotas",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads("TenantQuota"), Reads("TenantLedger")),
    writes=(Writes("TenantQuota", ("status",)),),
    calls=(API_SERVER,),
    timers=(Timer("usage of tenants", TENANTS_EVERY_S),),
)
ACKNOWLEDGERS = Actor(
    name="housekeeping/stopped-acknowledgers",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads("SchedulerOverride"), Reads("Lease", ("spec",))),
    writes=(Writes("SchedulerOverride", ("status.conditions",)),),
    calls=(API_SERVER,),
    timers=(Timer("leases of those who carry out overrides", ACKNOWLEDGERS_EVERY_S),),
)
EVENTS = Actor(
    name="housekeeping/events",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads("Event", ("lastTimestamp", "metadata")),),
    writes=(Writes("Event", deletes=True),),
    calls=(API_SERVER,),
    timers=(Timer("expired Events", EXPIRE_S),),
)
# `detect/field_fights.py`: it reads the updates of all kinds as they are committed.
FIGHTS = Actor(
    name="housekeeping/field-fights",
    process=PROCESS,
    account=ACCOUNT,
    reads=(Reads("ComponentSignals", ("status.conditions",)),),
    writes=(Writes("ComponentSignals", ("status",), creates=True), Writes("Event", creates=True)),
    calls=(API_SERVER,),
)

ACTORS = (
    GARBAGE, NAMESPACES, DEFINITIONS, SCALE_RIGHTS, QUOTAS, TENANTS, ACKNOWLEDGERS, EVENTS, FIGHTS, BOOTSTRAP,
)  # fmt: skip
