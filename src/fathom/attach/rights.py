"""What an attached process does in the cluster: it reads what is copied and, to schedule, binds pods.

Each right says what its lack costs, for the table that `fathom attach` prints. The roles that are installed
are made of the same rights, so that none is granted which nobody needs. Pure.
"""

from __future__ import annotations

import msgspec

from fathom.attach.kinds import MIRRORED
from fathom.kinds import override_policy
from fathom.model.accounts import SYSTEM_NAMESPACE

READ = ("get", "list", "watch")


class Right(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...]
    group: str
    resource: str  # 'pods', 'pods/binding'
    lack: str
    needed: bool = False  # Without it the mode does not work at all.
    namespace: str = ""  # '': in all of them.
    object_name: str = ""  # Only the object of this name; '': all.

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


def observing() -> list[Right]:
    """What an observer reads."""
    return [
        Right(READ, kind.resource.group, kind.resource.plural, kind.lack, kind.needed, namespace)
        for kind in MIRRORED
        for namespace in kind.namespaces or ("",)
    ]


def scheduling() -> list[Right]:
    """What a scheduler reads and writes besides."""
    return [
        Right(READ, "", "namespaces", "it cannot schedule", True),
        Right(READ, "", "nodes", "it cannot schedule", True),
        Right(READ, "", "pods", "it cannot schedule", True),
        Right(READ, "", "persistentvolumeclaims", "it cannot schedule", True),
        Right(READ, "", "persistentvolumes", "it cannot schedule", True),
        Right(READ, "policy", "poddisruptionbudgets", "it cannot schedule", True),
        Right(READ, "storage.k8s.io", "storageclasses", _NO_VOLUMES),
        Right(("patch",), "", "persistentvolumeclaims", _NO_VOLUMES),
        Right(("patch",), "", "persistentvolumes", _NO_VOLUMES),
        Right(("create",), "", "pods/binding", "it cannot schedule", True),
        Right(
            ("patch",), "", "pods/status", "waiting pods do not say why, and preemption has no nominated node"
        ),
        Right(("delete",), "", "pods", "pods of higher priority preempt none"),
        Right(("create", "patch"), "", "events", "pods have no Events of their scheduling"),
        Right(
            ("create", "get", "update"),
            "coordination.k8s.io",
            "leases",
            "it cannot lead",
            True,
            SYSTEM_NAMESPACE,
        ),
        *_steering(),
    ]


def _steering() -> list[Right]:
    """What a scheduler reads and writes of overrides."""
    policies = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    return [
        Right(READ, "fathom.dev", "scheduleroverrides", _NOT_STEERED),
        Right(("patch",), "fathom.dev", "scheduleroverrides/status", "overrides do not say who honours them"),
        *(
            Right(
                ("get",),
                "admissionregistration.k8s.io",
                resource,
                "no override is honoured: who vouches for its author is not known",
                object_name=override_policy.NAME,
            )
            for resource in policies
        ),
    ]


_NO_VOLUMES = "pods whose claims wait for their first consumer are not scheduled"
_NOT_STEERED = "overrides do nothing"


def rules_of(rights: list[Right], namespace: str = "") -> list[dict[str, list[str]]]:
    """The rules of a role: those of one namespace, or those of all."""
    rules: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for right in rights:
        if right.namespace == namespace:
            rules.setdefault((right.group, right.verbs, right.object_name), []).append(right.resource)
    return [
        {
            "apiGroups": [group],
            "resources": sorted(set(resources)),
            **({"resourceNames": [object_name]} if object_name else {}),
            "verbs": list(verbs),
        }
        for (group, verbs, object_name), resources in rules.items()
    ]
