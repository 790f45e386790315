"""SchedulingPolicy, PolicyRollout, SchedulerOverride: as the API serves them."""

from __future__ import annotations

from fathom.api.kinds.kind import Column
from fathom.api.kinds.own_schema import (
    CONDITIONS,
    COUNT,
    FLAG,
    NAME,
    PERCENT,
    TEXT,
    TIME,
    group,
    listed,
    one_of,
    own_kind,
    said,
)

_SCOPE = group(
    tenants=listed(NAME),
    namespaces=listed(NAME),
    workloads=listed(NAME),
    regions=listed(NAME),
)

SCHEDULING_POLICY = own_kind(
    "SchedulingPolicy",
    "schedulingpolicies",
    namespaced=False,
    short_names=("spol",),
    columns=(
        Column("Max-Zone-Skew", "integer", ".spec.maxZoneSkew"),
        Column("Workloads", "string", ".spec.scope.workloads[*]"),
        Column("Description", "string", ".spec.description", priority=1),
    ),
    spec=group(
        scope=said(_SCOPE, "Whom it may be rolled out to; an empty list leaves nobody out."),
        filters=said(listed(NAME), "The optional rules that are on; empty: all of them."),
        disabledFilters=listed(NAME),
        weights=said(
            {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1000},
                "maxProperties": 64,
            },
            "Weights of scores; one that is not named keeps its own.",
        ),
        maxZoneSkew={"type": "integer", "minimum": 1, "maximum": 1_000_000},
        preemption=FLAG,
        maxViewAgeSeconds=COUNT,
        description=TEXT,
    ),
    status=None,
)

POLICY_ROLLOUT = own_kind(
    "PolicyRollout",
    "policyrollouts",
    namespaced=False,
    short_names=("prl",),
    columns=(
        Column("From", "string", ".spec.from"),
        Column("To", "string", ".spec.to"),
        Column("Phase", "string", ".status.phase"),
        Column("Active", "string", ".status.active"),
        Column("Percent", "integer", ".status.percent"),
    ),
    spec=group(
        "to",
        from_=said(NAME, "The policy that holds before, and again after a rollback."),
        to=said(NAME, "The policy that is to hold."),
        scope=_SCOPE,
        steps=listed(group("percent", percent=PERCENT, hold=TEXT), 32),
        gates=group(noPendingRegression=FLAG, signalsMaxAge=TEXT, observedBy=listed(NAME)),
        automaticRollback=FLAG,
        paused=FLAG,
    ),
    status=group(
        phase=one_of("Pending", "Canary", "Complete", "RolledBack"),
        active=TEXT,
        canary=TEXT,
        percent=PERCENT,
        step=COUNT,
        activationRevision=COUNT,
        stepStartedAt=TIME,
        bakedSeconds=said(COUNT, "How long the step was looked at with fresh signals, as last written down."),
        observedGeneration=COUNT,
        observedBy=listed(
            group(
                "controller",
                controller=TEXT,
                observedGeneration=COUNT,
                revision=COUNT,
                time=TIME,
                lease=TEXT,
                epoch=COUNT,
            )
        ),
        conditions=CONDITIONS,
    ),
)

SCHEDULER_OVERRIDE = own_kind(
    "SchedulerOverride",
    "scheduleroverrides",
    namespaced=True,
    short_names=("sov",),
    columns=(
        Column("Target", "string", ".spec.target"),
        Column("Scope", "string", ".spec.scope"),
        Column("Reason", "string", ".spec.reason"),
        Column("Author", "string", ".status.author"),
        Column("Active", "boolean", ".status.active"),
        Column("Expires", "string", ".status.expiresAt"),
    ),
    selectable=("spec.target",),
    spec=group(
        "target",
        "reason",
        "expiresAfter",
        "changes",
        target=said(NAME, "workload/NAME (or deployment/, replicaset/, job/), node/, zone/ or pool/NAME."),
        scope=said(TEXT, "Where it holds: region/, zone/, node/ or pool/NAME; everywhere without it."),
        reason=said({"type": "string", "minLength": 1, "maxLength": 1024}, "Why, for whoever reads it next."),
        expiresAfter=said(NAME, "How long it lasts, such as 45m; each control class has its own bound."),
        # Unknown changes reach validation, which refuses them: to drop one is to accept what nobody does.
        changes={
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "pauseAutoscaler": FLAG,
                "pauseRollout": FLAG,
                "pauseRepair": FLAG,
                "pauseExpansion": FLAG,
                "avoidZones": listed(NAME),
                "avoidNodes": listed(NAME),
                "avoidNodeClasses": listed(NAME),
                "avoidPools": listed(NAME),
                "avoidTopology": {"type": "object", "additionalProperties": listed(NAME)},
                "allowReservedCapacityClass": NAME,
                "reservedReplicas": COUNT,
                "cordon": FLAG,
                "drain": FLAG,
                "approveRepairs": listed(NAME),
                "trafficWeights": {"type": "object", "additionalProperties": COUNT},
                "breakGlassRole": NAME,
            },
        },
    ),
    status=group(
        author=said(TEXT, "Who asked for it. Stamped by the server."),
        expiresAt=said(TIME, "When it ends. Stamped by the server."),
        observedGeneration=COUNT,
        active=FLAG,
        affectedControllers=listed(TEXT),
        acknowledgements=listed(
            group("controller", controller=TEXT, state=TEXT, reason=TEXT, observedGeneration=COUNT)
        ),
        conditions=CONDITIONS,
    ),
)
