"""What `fathom attach` installs so that overrides can be used there: their kind, a policy, a role. Pure.

Of fathom's kinds only SchedulerOverride is installed. Quotas, capacity classes, reservations and limits are
kept by fathom's own API server in the commit of each write, and rollouts of policies by a controller: without
them such an object would do nothing, and mislead whoever writes it (docs/decisions/0043).
"""

from __future__ import annotations

import msgspec

from fathom.control.override_policy import ADMISSION
from fathom.kinds import override_policy, scheduler_override
from fathom.kinds.attached_override import CARRIED_OUT
from fathom.kinds.override_changes import CHANGES
from fathom.kinds.shape import GROUP
from fathom.kube.definitions.own import own_kind
from fathom.kube.definitions.own_crds import definition_of
from fathom.model.objects import Obj

DEFINITION, POLICY, POLICY_BINDING = (
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
OVERRIDES = scheduler_override.OVERRIDES  # 'scheduleroverrides.fathom.dev'
STEERING_ROLE = "fathom-steering"


def steering_objects(labels: dict[str, str]) -> list[Obj]:
    """In an order in which they can be created."""
    # Read anew: parts of a schema are shared, which YAML would show as references.
    definition = msgspec.json.decode(
        msgspec.json.encode(definition_of(own_kind(scheduler_override.DEFINITION)))
    )
    definition = {**definition, "metadata": {"name": OVERRIDES, "labels": dict(labels)}}
    meta = {"name": override_policy.NAME, "labels": dict(labels)}
    # The policy first: what is created before it is in force has nobody who vouches for its author.
    return [
        _object(f"{ADMISSION}/v1", POLICY, meta, spec=override_policy.policy_spec()),
        _object(f"{ADMISSION}/v1", POLICY_BINDING, meta, spec=override_policy.binding_spec()),
        definition,
        _object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            {"name": STEERING_ROLE, "labels": dict(labels)},
            rules=[_steering_rule()],
        ),
    ]


def is_for_steering(obj: Obj) -> bool:
    """Whether it is one of these: fathom is attached without them too, and then nothing is steered."""
    return obj["kind"] in {DEFINITION, POLICY, POLICY_BINDING} or obj["metadata"]["name"] == STEERING_ROLE


def _steering_rule() -> Obj:
    """For people who steer; bound to nobody. It has the verbs of changes that are carried out there."""
    verbs = sorted({CHANGES[name].verb for name in CARRIED_OUT})
    usual = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return {"apiGroups": [GROUP], "resources": [override_policy.OVERRIDES], "verbs": [*usual, *verbs]}


def _object(api_version: str, kind: str, meta: Obj, **content: object) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": dict(meta), **content}
