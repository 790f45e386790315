"""What holds for every override, whatever it asks for: who has acknowledged it commits nothing against it,
what it does carries its UID, it reaches no further than the limits, and no workload loses its last healthy
replica by it. Ledgers, quotas and budgets have checkers of their own, which hold here too."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.well_known import ACTOR_HEADER, POOL_LABEL, REGION_LABEL, ZONE_LABEL
from fathom.sim.checkers.override_effects import ACCOUNT, LATE_S, MADE_BY, ROUTES, USED, evicted_for
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.world import World

LIMITS = "steeringlimits.fathom.dev"
SEEN_S = 10.0  # As old as a cache may be on which an eviction rests, or a workload's place.
PLACES = {"node": "kubernetes.io/hostname", "zone": ZONE_LABEL, "pool": POOL_LABEL}
SCOPES = {**PLACES, "region": REGION_LABEL}


class _Override(msgspec.Struct, frozen=True):
    namespace: str
    spec: Obj
    ends_s: float
    acknowledged: frozenset[str]  # Controllers that honour this generation.

    def change(self, name: str) -> object:
        return (self.spec.get("changes") or {}).get(name)

    def targets(self, namespace: str, name: str) -> bool:
        """Whether its target is the Deployment."""
        kind, _, target = str(self.spec.get("target")).partition("/")
        return self.namespace == namespace and target == name and kind in {"workload", "deployment"}


class HonouredOnceAcknowledged(Checker):
    """Of overrides of Deployments, from the commit of an acknowledgement until the end: on nodes in their
    scope; and where all nodes are in it, of what holds for a whole workload."""

    name = "nobody commits against an override that it has acknowledged"
    resources = frozenset({OVERRIDES, DEPLOYMENTS, REPLICA_SETS, "pods", "nodes"})

    def __init__(self) -> None:
        self._overrides: dict[Key, _Override] = {}
        self._nodes: dict[str, Obj] = {}
        self._labelled_s: dict[str, float] = {}  # Node -> since when it has its labels.

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        match change.resource:
            case "scheduleroverrides.fathom.dev":
                self._note(change)
            case "nodes":
                self._note_node(change)
            case "deployments.apps":
                return self._scaled(change)
            case "replicasets.apps":
                return self._rolled(change)
            case _:
                return self._bound(change) or self._repaired(change)
        return None

    def _note(self, change: Seen) -> None:
        obj = change.new
        ends_ns = moment_ns(lookup(obj, "status", "expiresAt"))
        # One that was edited since its approval is not in force, and keeps its end.
        waits = lookup(obj, "status", "approval", "required") and not lookup(
            obj, "status", "approval", "approved"
        )
        if obj is None or is_deleting(obj) or ends_ns is None or waits:
            self._overrides.pop(change.key, None)
            return
        generation = metadata(obj).get("generation")
        honouring = frozenset(
            str(entry["controller"])
            for entry in lookup(obj, "status", "acknowledgements") or ()
            if entry.get("state") == "Honoring" and entry.get("observedGeneration") == generation
        )
        since_ns = self._engine.epoch_ns + self._engine.began_ns
        ends_s = (ends_ns - since_ns) / SECOND_NS - LATE_S
        self._overrides[change.key] = _Override(change.key.namespace, obj["spec"], ends_s, honouring)

    def _note_node(self, change: Seen) -> None:
        name, before = change.key.name, self._nodes.pop(change.key.name, None)
        if change.new is None:
            return
        if before is None or labels_of(before) != labels_of(change.new):
            self._labelled_s[name] = change.at_s
        self._nodes[name] = change.new

    def _honoured(
        self, change: Seen, controller: str, name: str, node: str = ""
    ) -> Iterator[tuple[Key, _Override]]:
        """Overrides with this change that the controller honours now, on the node if that is given. Not by a
        process whose clock is wrong: for it they end at another time."""
        if getattr(self._engine.processes.get(change.by), "skew_ns", 0):
            return
        for key, override in self._overrides.items():
            waits = change.at_s >= override.ends_s or controller not in override.acknowledged
            if override.change(name) and not waits and self._reaches(override, change.at_s, node):
                yield key, override

    def _reaches(self, override: _Override, at_s: float, node: str) -> bool:
        """Without a node: whether it reaches its target wherever that is. Where a workload is, changes with
        its pods."""
        scope = str(override.spec.get("scope") or "cluster")
        if scope == "cluster":
            return True
        if node:
            return _is_in(scope, self._nodes.get(node, {}))
        return bool(self._nodes) and all(
            _is_in(scope, each) and at_s - self._labelled_s[name] > SEEN_S
            for name, each in self._nodes.items()
        )

    def _scaled(self, change: Seen) -> Found:
        before, after = (int(lookup(obj, "spec", "replicas") or 0) for obj in (change.old, change.new))
        by_autoscaler = dict(change.headers).get(ACTOR_HEADER, "") == "controllers/autoscaling"
        if change.old is None or change.new is None or before == after or not by_autoscaler:
            return None
        for name in ("pauseAutoscaler", *(["pauseExpansion"] if after > before else [])):
            for key, override in self._honoured(change, "autoscaler", name):
                if override.targets(change.key.namespace, change.key.name):
                    under = f"under {name} of {'/'.join(key)}"
                    return f"the autoscaler scaled {change.path} from {before} to {after} {under}"
        return None

    def _rolled(self, change: Seen) -> Found:
        """A new ReplicaSet is a rollout that goes on."""
        if change.old is not None or change.new is None:
            return None
        owners = metadata(change.new).get("ownerReferences") or ()
        for key, override in self._honoured(change, "deployment-controller", "pauseRollout"):
            if any(override.targets(change.key.namespace, str(owner.get("name"))) for owner in owners):
                return f"{change.path} was created under {'/'.join(key)}, which pauses the rollout"
        return None

    def _bound(self, change: Seen) -> Found:
        where = str(lookup(change.new, "spec", "nodeName") or "")
        if not where or lookup(change.old, "spec", "nodeName"):
            return None
        labels = labels_of(self._nodes.get(where, {}))
        names = _workloads(change.new or {})
        for key, override in self._honoured(change, "scheduler", "avoidZones", where):
            avoided = labels.get(ZONE_LABEL) in override.spec["changes"]["avoidZones"]
            if avoided and any(override.targets(change.key.namespace, name) for name in names):
                return f"{change.key.name} was put on {where}, which {'/'.join(key)} avoids"
        for name in ("cordon", "drain"):
            for key, override in self._honoured(change, "scheduler", name, where):
                if _targets_node(override.spec, where, labels):
                    return f"{change.key.name} was put on {where}, which {'/'.join(key)} cordons"
        return None

    def _repaired(self, change: Seen) -> Found:
        """A pod of its own name is its own workload. What a person approved is another matter."""
        by_repair = dict(change.headers).get(ACTOR_HEADER, "") == "controllers/repair-pods"
        goes = change.new is None or (is_deleting(change.new) and not is_deleting(change.old or {}))
        if change.old is None or not by_repair or not goes:
            return None
        names = (change.key.name, *_workloads(change.old))
        where = str(lookup(change.old, "spec", "nodeName") or "")
        labels = labels_of(self._nodes.get(where, {}))
        for key, override in self._honoured(change, "repair-controller", "pauseRepair", where):
            of_it = any(override.targets(change.key.namespace, name) for name in names)
            if of_it or _targets_node(override.spec, where, labels):
                return f"repair deleted {change.path} under {'/'.join(key)}, which pauses it"
        return None


class EffectsCarryTheUid(Checker):
    """What the override controller does to other objects names an override that exists, by its UID."""

    name = "every effect of an override carries its UID"
    resources = frozenset({OVERRIDES, "pods", ROUTES})

    def __init__(self) -> None:
        self._uids: dict[str, Key] = {}  # And whose they are.

    def commit(self, change: Seen) -> Found:
        if change.resource == OVERRIDES:
            self._uids[uid_of(change.new or change.old or {})] = change.key
            return None
        if dict(change.headers).get(ACTOR_HEADER, "") != "controllers/overrides":
            return self._placed(change)
        if change.resource == ROUTES:
            marks = [str(lookup(obj, "metadata", "annotations", MADE_BY) or "") for obj in _both(change)]
            named = any(mark.partition("@")[2] in self._uids for mark in marks)
            return None if named else f"the override controller wrote {change.path}, and no UID is on it"
        goes = change.new is None or (is_deleting(change.new) and not is_deleting(change.old or {}))
        if goes and evicted_for(change.new or change.old) not in self._uids:
            return f"the override controller evicts {change.path}, and no UID says for which override"
        return None

    def _placed(self, change: Seen) -> Found:
        """A placement that an override allows is on its account, which has the UID; its mark may have only
        the name, which a later override may have too."""
        if change.resource != "pods" or lookup(change.old, "spec", "nodeName"):
            return None
        notes = metadata(change.new or {}).get("annotations") or {}
        if not notes.get(USED) or not lookup(change.new, "spec", "nodeName"):
            return None
        account = str(notes.get(ACCOUNT) or "").split("/")[3:]
        for entry in str(notes[USED]).split(","):
            name, _, uid = entry.partition("@")
            if not any("/".join(self._uids.get(each, ())) == name for each in (uid, *account)):
                return f"{change.path} was placed by {entry}, and neither mark nor account has its UID"
        return None


class BlastRadiusWithinLimits(Checker):
    """The limits are those at the commit; nodes are counted again, from commits alone."""

    name = "no override reaches further than the limits"
    resources = frozenset({OVERRIDES, LIMITS, "nodes"})
    FIELDS = (("pods", "maxPods"), ("nodes", "maxNodes"), ("zonePercent", "maxZonePercent"))

    def __init__(self) -> None:
        self._limits: Obj = {}
        self._nodes: dict[str, Obj] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == LIMITS:
            self._limits = lookup(change.new, "spec") or {}
        elif change.resource == "nodes":
            if change.new is None:
                self._nodes.pop(change.key.name, None)
            else:
                self._nodes[change.key.name] = change.new
        elif change.new is not None and _is_put_in_force(change):
            return self._judged(change.path, change.new)
        return None

    def _judged(self, path: str, override: Obj) -> Found:
        radius = lookup(override, "status", "blastRadius") or {}
        for counted, limit in self.FIELDS:
            most = self._limits.get(limit)
            if most is not None and (radius.get(counted) or 0) > most:
                return f"{path} concerns {radius[counted]} {counted}, and {limit} is {most}"
        changes = lookup(override, "spec", "changes") or {}
        if not (changes.get("cordon") or changes.get("drain")):
            return None
        spec = override["spec"]
        taken = sum(_targets_node(spec, name, labels_of(node)) for name, node in self._nodes.items())
        known = radius.get("nodes") or 0
        if spec.get("scope") == "cluster" and taken != known:
            return f"{path} concerns {taken} nodes, and the server counted {known}"
        return None


class LastHealthyReplicaStays(Checker):
    """No pod is evicted for an override while it is the last healthy one of its controller, as far as a cache
    can know. What a process has evicted itself for the same override, it knows."""

    name = "no override takes the last healthy replica of a workload"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self._taken_by: dict[str, object] = {}  # Owner's UID -> who evicted its last pod but one, for what.
        self._ready: dict[str, dict[Key, None]] = {}  # Owner's UID -> its ready pods.
        self._more_s: dict[str, float] = {}  # Owner's UID -> when it had more than one of them last.

    def commit(self, change: Seen) -> Found:
        pod = change.new or change.old or {}
        owner = owner_uid(pod)
        if not owner:
            return None
        eviction = self._evicted(change, owner)
        ready = self._ready.setdefault(owner, {})
        if len(ready) > 1:
            self._more_s[owner] = change.at_s
        if change.new is not None and _is_ready(change.new):
            ready[change.key] = None
        elif change.key in ready:
            del ready[change.key]
            self._taken_by[owner] = _taker(change)
        if len(ready) > 1:
            self._more_s[owner] = change.at_s
        return eviction

    def _evicted(self, change: Seen, owner: str) -> Found:
        if not evicted_for(change.new) or evicted_for(change.old) or not _is_ready(change.old or {}):
            return None
        alone = list(self._ready.get(owner, ())) == [change.key]
        lately = change.at_s - self._more_s.get(owner, float("-inf")) <= SEEN_S
        if not alone or (lately and self._taken_by.get(owner) != _taker(change)):
            return None
        return f"{change.path} is evicted for an override, and is the last healthy replica"


def _taker(change: Seen) -> tuple[str, str, int]:
    """The override for which the pod is evicted, and the process that evicts it."""
    return evicted_for(change.new), change.by, change.incarnation


def _both(change: Seen) -> list[Obj]:
    return [obj for obj in (change.old, change.new) if obj is not None]


def _workloads(pod: Obj) -> tuple[str, ...]:
    """The Deployment behind the pod's ReplicaSet, which is named after it and the template."""
    owner: Obj = next(iter(metadata(pod).get("ownerReferences") or ()), {})
    template = str(labels_of(pod).get("pod-template-hash") or "")
    return (str(owner.get("name") or "").removesuffix(f"-{template}"),)


def _targets_node(spec: Obj, node: str, labels: Obj) -> bool:
    kind, _, name = str(spec.get("target")).partition("/")
    return kind in PLACES and (labels.get(PLACES[kind]) == name or (kind == "node" and node == name))


def _is_in(scope: str, node: Obj) -> bool:
    kind, _, name = scope.partition("/")
    return kind in SCOPES and labels_of(node).get(SCOPES[kind]) == name


def _is_put_in_force(change: Seen) -> bool:
    """A new spec, or an approval."""
    before, after = change.old or {}, change.new or {}
    approvals = [lookup(obj, "status", "approval", "approved") for obj in (before, after)]
    return before.get("spec") != after.get("spec") or (approvals[1] is True and approvals[0] is not True)


def _is_ready(pod: Obj) -> bool:
    conditions = lookup(pod, "status", "conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return ready and not is_deleting(pod)
