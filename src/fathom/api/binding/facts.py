"""Objects that the checks of a binding read, parsed once for each revision of an object.

The memo saves time and changes no answer: an object at a given revision never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from fathom.api.ledger.accounts import key_in_store
from fathom.api.ledger.room import NodeRoom, node_facts
from fathom.kinds.capacity_class import CAPACITY_CLASSES, CapacityClass
from fathom.kinds.override_changes import INFRASTRUCTURE_TARGETS
from fathom.kinds.override_scope import WorkloadName, controller_name, targets_workload, workload_names
from fathom.kinds.policy_rollout import ROLLOUTS, PolicyRollout, active_policies
from fathom.kinds.reservation import RESERVATIONS, Reservation
from fathom.kinds.scheduler_override import (
    OVERRIDES,
    SchedulerOverride,
    named,
    targets_pod,
    workloads_of,
)
from fathom.kinds.scheduling_policy import POLICIES
from fathom.kinds.shape import read
from fathom.kinds.tenant_quota import TENANT_QUOTAS, TenantQuota
from fathom.model.objects import Key, Obj, metadata
from fathom.model.resource_names import REPLICA_SETS
from fathom.model.view import Seen, View
from fathom.store.protocol import Expect

T = TypeVar("T")

# Written with every override and capacity class. The commit of a placement cannot name an override that is
# created while the placement is checked; it can name this key, which has changed by then.
RULES = "placementrules.fathom.dev"
RULES_KEY = Key("", "current")
RULES_PATH = f"/registry/{RULES}/{RULES_KEY.name}"


MEMO_MAX = 200_000  # Twice the largest cluster that is measured; beyond it, the memo is cleared.


class KnownObject(msgspec.Struct, frozen=True):
    """An object's key and revision, for the commit to expect."""

    resource: str
    key: Key
    revision: int


class Override(msgspec.Struct, frozen=True):
    spec: SchedulerOverride
    revision: int


class Overrides(msgspec.Struct, frozen=True):
    """All overrides, by target."""

    of_nodes: tuple[Override, ...] = ()  # Targets are nodes, zones, pools.
    of_workloads: dict[tuple[str, str], tuple[Override, ...]] = {}  # (namespace, name of the workload)


class BindingFacts:
    """The facts of one view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._memo: dict[tuple[str, Key], tuple[int, Any]] = {}
        self._classes: tuple[int, tuple[CapacityClass, ...]] = (-1, ())
        self._overrides: tuple[int, Overrides] = (-1, Overrides())
        self._active: tuple[int, dict[str, KnownObject]] = (
            -1,
            {},
        )  # Policy -> the first rollout in which it is active.

    def node(self, name: str) -> tuple[NodeRoom | None, int]:
        return self._of("nodes", Key("", name), node_facts)

    def quota(self, tenant: str) -> tuple[TenantQuota | None, int]:
        return self._of(TENANT_QUOTAS, Key("", tenant), lambda obj: read(TenantQuota, obj))

    def override(self, key: Key) -> tuple[SchedulerOverride | None, int]:
        return self._of(OVERRIDES, key, lambda obj: read(SchedulerOverride, obj))

    def has_overrides(self) -> bool:
        overrides = self._all_overrides()
        return bool(overrides.of_nodes or overrides.of_workloads)

    def overrides_of_nodes(self) -> tuple[Override, ...]:
        return self._all_overrides().of_nodes

    def overrides_about(self, pod: Obj) -> list[Override]:
        """Overrides that target the pod's workload, including ended ones."""
        of_workloads = self._all_overrides().of_workloads
        if not of_workloads:
            return []
        namespace, names = str(metadata(pod).get("namespace") or ""), self.workloads(pod)
        listed = dict.fromkeys((*workloads_of(pod), *(name.name for name in names)))
        return [
            override
            for override in self.overrides_named(namespace, listed)
            if targets_pod(override.spec, pod) or targets_workload(override.spec, namespace, names)
        ]

    def workloads(self, pod: Obj) -> tuple[WorkloadName, ...]:
        """The pod's controllers, one above the other."""
        names, replica_set = workload_names("Pod", pod)[1:], self._unlabelled_set(pod)
        seen = None if replica_set is None else self._view.get(REPLICA_SETS, replica_set)
        above = None if seen is None else controller_name(seen.obj)
        return names if above is None else (*names, above)

    def workloads_expect(self, pod: Obj) -> tuple[Expect, ...]:
        """What the commit expects for `workloads` to be still true."""
        replica_set = self._unlabelled_set(pod)
        if replica_set is None:
            return ()
        seen = self._view.get(REPLICA_SETS, replica_set)
        return (Expect(key_in_store(REPLICA_SETS, replica_set), 0 if seen is None else seen.revision),)

    def _unlabelled_set(self, pod: Obj) -> Key | None:
        """The ReplicaSet of a pod whose labels do not name the Deployment behind it. Its creator wrote the
        labels: the ReplicaSet itself says whose it is."""
        names = workload_names("Pod", pod)[1:]
        if len(names) != 1 or names[0].kind != "replicaset":
            return None
        return Key(str(metadata(pod).get("namespace") or ""), names[0].name)

    def overrides_named(self, namespace: str, names: Iterable[str]) -> list[Override]:
        """Overrides that target a workload of one of these names, of whatever kind, including ended ones."""
        of_workloads = self._all_overrides().of_workloads
        return [override for name in names for override in of_workloads.get((namespace, name), ())]

    def overrides_in(self, namespace: str) -> list[Override]:
        """Overrides that target a workload of the namespace, including ended ones."""
        of_workloads = self._all_overrides().of_workloads
        return [each for target, about in of_workloads.items() if target[0] == namespace for each in about]

    def _all_overrides(self) -> Overrides:
        revision = self._view.revision(OVERRIDES)
        if self._overrides[0] != revision:
            self._overrides = (revision, _by_target(self._view))
        return self._overrides[1]

    def rules(self) -> Expect:
        """The precondition that overrides and capacity classes have not changed since the check."""
        seen = self._view.get(RULES, RULES_KEY)
        return Expect(RULES_PATH, seen.revision if seen is not None else 0)

    def reservation(self, key: Key) -> tuple[Reservation | None, Seen | None]:
        seen = self._view.get(RESERVATIONS, key)
        return (None, None) if seen is None else (read(Reservation, seen.obj), seen)

    def namespace(self, name: str) -> Obj | None:
        seen = self._view.get("namespaces", Key("", name))
        return seen.obj if seen is not None else None

    def classes(self) -> tuple[CapacityClass, ...]:
        """All capacity classes: there are few, and each may keep room on a node."""
        revision = self._view.revision(CAPACITY_CLASSES)
        if self._classes[0] != revision:
            classes = tuple(read(CapacityClass, seen.obj) for seen in self._view.list(CAPACITY_CLASSES))
            self._classes = (revision, classes)
        return self._classes[1]

    def class_revision(self, name: str) -> int:
        seen = self._view.get(CAPACITY_CLASSES, Key("", name))
        return seen.revision if seen is not None else 0

    def policy(self, name: str) -> tuple[int, KnownObject | None]:
        """The policy's revision (0: it does not exist) and the rollout in which it is active, if any."""
        seen = self._view.get(POLICIES, Key("", name))
        revision = self._view.revision(ROLLOUTS)
        if self._active[0] != revision:
            self._active = (revision, self._by_policy())
        return (seen.revision if seen else 0), self._active[1].get(name)

    def _by_policy(self) -> dict[str, KnownObject]:
        active: dict[str, KnownObject] = {}
        for seen in self._view.list(ROLLOUTS):
            rollout = read(PolicyRollout, seen.obj)
            for name in active_policies(rollout):
                active.setdefault(name, KnownObject(ROLLOUTS, rollout.metadata.key, seen.revision))
        return active

    def _of(self, resource: str, key: Key, make: Callable[[Obj], T]) -> tuple[T | None, int]:
        seen = self._view.get(resource, key)
        if seen is None:
            return None, 0
        cached = self._memo.get((resource, key))
        if cached is None or cached[0] != seen.revision:
            if len(self._memo) >= MEMO_MAX:
                self._memo.clear()
            cached = self._memo[resource, key] = (seen.revision, make(seen.obj))
        return cached[1], seen.revision


def _by_target(view: View) -> Overrides:
    of_nodes: list[Override] = []
    of_workloads: dict[tuple[str, str], tuple[Override, ...]] = {}
    for seen in view.list(OVERRIDES):
        try:
            override = Override(read(SchedulerOverride, seen.obj), seen.revision)
        except (
            msgspec.ValidationError
        ):  # No fathom server stores an invalid one; it must not stop every binding.
            continue
        target = named(override.spec.spec.target)
        if target is None:
            continue
        if target.kind in INFRASTRUCTURE_TARGETS:
            of_nodes.append(override)
        else:
            key = (override.spec.metadata.namespace, target.name)
            of_workloads[key] = (*of_workloads.get(key, ()), override)
    return Overrides(tuple(of_nodes), of_workloads)
