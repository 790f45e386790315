"""The arguments of the tools, as Structs: the JSON schema that a client sees, and the check of what it"
" sends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Object = Annotated[
    str, Meta(description="The object as KIND/NAME, such as pod/web-1 or deployment/web.", max_length=300)
]
Namespace = Annotated[
    str, Meta(description="Namespace. Default: the one of whoever runs the server.", max_length=63)
]
At = Annotated[
    str,
    Meta(
        description="A revision, a time (RFC 3339) or how long ago, such as 10m. Default: now.", max_length=64
    ),
]
Wide = Annotated[bool, Meta(description="With every node and every decision.")]
Everywhere = Annotated[bool, Meta(description="In all namespaces, as far as the caller may read them.")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    namespace: Namespace = ""


class Why(Arguments, frozen=True, kw_only=True):
    object: Object
    at: At = ""
    wide: Wide = False


class Stuck(Arguments, frozen=True, kw_only=True):
    all_namespaces: Everywhere = False
    at: At = ""


class SupposedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    object: Object
    patch: Annotated[
        dict[str, Any],
        Meta(description='A JSON merge patch of the object, such as {"spec": {"unschedulable": false}}.'),
    ]


class WhatIf(Arguments, frozen=True, kw_only=True):
    object: Object
    changes: Annotated[
        list[SupposedChange],
        Meta(description="Changes that are only supposed: nothing is written.", min_length=1, max_length=10),
    ]
    wide: Wide = False


class Status(Arguments, frozen=True, kw_only=True):
    object: Annotated[str, Meta(description="The workload as KIND/NAME: deployment/web.", max_length=300)]
    at: At = ""


class Timeline(Arguments, frozen=True, kw_only=True):
    object: Object
    since: Annotated[
        str, Meta(description="Its beginning: how far back (10m), or a time.", max_length=64)
    ] = ""
    until: Annotated[
        str, Meta(description="Its end: a revision, a time, or how long ago. Default: now.", max_length=64)
    ] = ""
    wide: Wide = False


class Coupling(Arguments, frozen=True, kw_only=True):
    subject: Annotated[
        str,
        Meta(
            description="A controller (autoscaling), an object (KIND/NAME) or a field (KIND/NAME:FIELD).",
            max_length=400,
        ),
    ]


class Decisions(Arguments, frozen=True, kw_only=True):
    object: Annotated[
        str, Meta(description="The object as KIND/NAME. Default: all of the namespace.", max_length=300)
    ] = ""
    limit: Annotated[int, Meta(description="How many, the newest.", ge=1, le=100)] = 20


class Overrides(Arguments, frozen=True, kw_only=True):
    name: Annotated[
        str, Meta(description="Name of an override: all about it. Default: list them.", max_length=253)
    ] = ""
    all_namespaces: Everywhere = False


class Runbooks(Arguments, frozen=True, kw_only=True):
    name: Annotated[
        str, Meta(description="Name of a runbook: what it does. Default: list them.", max_length=253)
    ] = ""


class Runs(Arguments, frozen=True, kw_only=True):
    name: Annotated[
        str, Meta(description="Name of a run: its record. Default: list them.", max_length=253)
    ] = ""


class RunbookPlan(Arguments, frozen=True, kw_only=True):
    runbook: Annotated[str, Meta(description="Name of the runbook.", max_length=253)]
    parameters: Annotated[dict[str, str], Meta(description="The values of its parameters, by name.")] = (
        msgspec.field(default_factory=dict)
    )


class Override(Arguments, frozen=True, kw_only=True):
    """An override, as `fathom override create` takes it."""

    name: Annotated[str, Meta(description="Name of the override.", min_length=1, max_length=253)]
    target: Annotated[
        str,
        Meta(
            description="workload/NAME (or deployment/, replicaset/, job/), node/, zone/ or pool/NAME.",
            max_length=300,
        ),
    ]
    scope: Annotated[
        str,
        Meta(
            description="Where: region/, zone/, node/ or pool/NAME, or cluster: everywhere.", max_length=300
        ),
    ]
    reason: Annotated[str, Meta(description="Why it is needed, for people.", min_length=1, max_length=1024)]
    expires_after: Annotated[str, Meta(description="How long it lasts, such as 45m.", max_length=32)]
    changes: Annotated[
        dict[str, Any],
        Meta(
            description="What it changes, as spec.changes of a SchedulerOverride: pauseAutoscaler,"
            " pauseRollout, pauseRepair, pauseExpansion, cordon, drain (true); avoidZones, avoidNodes,"
            " avoidNodeClasses, avoidPools (lists of names); avoidTopology; allowReservedCapacityClass,"
            " reservedReplicas; raisePriority; trafficWeights."
        ),
    ]
    on_end: Annotated[
        Literal["", "keep", "move"], Meta(description="Whether pods that it placed stay or are evicted.")
    ] = ""


class PreviewOverride(Override, frozen=True, kw_only=True):
    minutes: Annotated[int, Meta(description="How long it is watched, in virtual time.", ge=1, le=60)] = 10
    seeds: Annotated[int, Meta(description="In how many forks it is tried.", ge=1, le=10)] = 3


class ProposeRunbook(RunbookPlan, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(description="Why it is needed, for people.", min_length=1, max_length=1024)]
    name: Annotated[
        str, Meta(description="Name of the run. Default: the runbook's, and letters.", max_length=253)
    ] = ""


def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """A JSON schema whose root is the object itself, as clients expect it."""
    (root,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    name = root["$ref"].rpartition("/")[2]
    own = {field: value for field, value in components.pop(name).items() if field != "title"}
    own.pop("description", None)
    return {**own, **({"$defs": components} if components else {})}
