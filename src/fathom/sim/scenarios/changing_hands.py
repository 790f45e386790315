"""Pods get other owners, or none, by hand: their old and their new owners notice, count them right, and give
up the least useful ones first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fathom.control.ownership import controller_of
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resources import PODS, REPLICA_SETS
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.checkers import at_home
from fathom.sim.checkers.decisions import decision_of
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.scenarios.objects import pod_spec, replica_set
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S, all_but, manage, run_agent
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.process import SimProcess
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
APPS = ("left", "right")
UNREADY = {"fathom.dev/simulated": '{"fail": "readiness"}'}
MIN_READY_S = 5
LONG_S = 20.0  # So long a pod must be ready, or not ready, to be known as that.
RIGHT_AFTER_S = 40.0


class TheUsefulStay(Checker):
    """A ReplicaSet that has too many pods deletes no ready pod while one that is not ready stays, of those
    whose readiness has been known for long. A RecordReader."""

    name = "a ReplicaSet gives up unready pods first"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self._pods: dict[
            str, tuple[Obj, float]
        ] = {}  # UID -> the pod, and since when it is as ready as it is.
        self._about: dict[str, str] = {}  # Id of a decision -> the UID of what it is about.

    def begin(self, world: World) -> None:
        world.engine.record_readers.append(self)

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        goes = old is not None and is_active(old) and (new is None or is_deleting(new))
        problem = self._judge(change, old) if goes and old is not None else None
        if new is None or not is_active(new):
            self._pods.pop(uid_of(old or new or {}), None)
            return problem
        before = self._pods.get(uid_of(new))
        same = before is not None and is_ready(before[0]) == is_ready(new)
        self._pods[uid_of(new)] = (new, before[1] if same and before is not None else change.at_s)
        return problem

    def _judge(self, change: Seen, old: Obj) -> Found:
        if dict(change.headers).get(ACTOR_HEADER) != "controllers/replicasets" or not is_ready(old):
            return None
        if self._about.get(decision_of(change) or "") != owner_uid(old):
            return None  # It was given up by another, and handed over before the request arrived.
        worse = [
            key_of(pod).name
            for pod, since_s in self._pods.values()
            if owner_uid(pod) == owner_uid(old) and not is_ready(pod) and change.at_s - since_s > LONG_S
        ]
        known_s = change.at_s - self._pods.get(uid_of(old), (old, change.at_s))[1]
        if not worse or known_s < LONG_S:
            return None
        return f"{change.by} deleted {change.key.name}, which is ready, and {worse[0]} is not"

    # Called by the processes' journals.

    def decided(self, process: SimProcess, decision: Decision) -> None:
        self._about[decision.id] = decision.subject.uid

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        """How a decision ends does not matter here."""


class NobodyMakesTooMany(Checker):
    """A ReplicaSet creates or adopts no pod beyond the most that it ever wanted. People may give it more:
    what its decision could not have seen does not count, for its requests may arrive long after that."""

    name = "children ≤ desired + surge"
    resources = frozenset({"pods", REPLICA_SETS.name})

    def __init__(self) -> None:
        self._most: dict[str, int] = {}  # By the owner's UID.
        # Owner's UID -> UIDs of its live, matching pods -> the revision at which somebody gave it the pod; 0
        # where it has created or adopted that itself.
        self._mine: dict[str, dict[str, int]] = {}
        self._views: dict[str, int] = {}  # Id of a decision -> the newest revision of pods that it saw.

    def begin(self, world: World) -> None:
        world.engine.record_readers.append(self)

    def commit(self, change: Seen) -> Found:
        if change.resource != "pods":
            if change.new is not None:
                wanted, uid = int(lookup(change.new, "spec", "replicas") or 0), uid_of(change.new)
                self._most[uid] = max(wanted, self._most.get(uid, 0))
            return None
        uid = uid_of(change.new or change.old or {})
        before = self._take_out(uid)
        reference = controller_of(change.new) if change.new is not None else None
        if change.new is None or reference is None or not is_active(change.new):
            return None
        if _app(change.new) != reference["name"]:
            return None
        by_us = change.by in MANAGERS
        mine = self._mine.setdefault(reference["uid"], {})
        mine[uid] = before.get(reference["uid"], 0 if by_us else change.revision)
        ours = by_us and owner_uid(change.old or {}) != reference["uid"] and not change.late
        count = self._could_know(change, mine)
        if not ours or count <= self._most.get(reference["uid"], count):
            return None
        return f"{change.by} makes {change.key.name} the {count}th pod of {reference['name']}"

    def _take_out(self, uid: str) -> dict[str, int]:
        """By owner: when it was given this pod."""
        owners = [owner for owner, pods in self._mine.items() if uid in pods]
        return {owner: self._mine[owner].pop(uid) for owner in owners}

    def _could_know(self, change: Seen, mine: dict[str, int]) -> int:
        """How many of the pods the ReplicaSet has made itself, or could have seen when it decided."""
        view = self._views.get(decision_of(change) or "", change.revision)
        return sum(given <= view for given in mine.values())

    # Called by the processes' journals.

    def decided(self, process: SimProcess, decision: Decision) -> None:
        if (pods := decision.seen.get("Pod")) is not None:
            self._views[decision.id] = max(pods.revision, pods.applied)

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        """How a decision ends does not matter here."""


class AvailableInTime(Checker):
    """At rest: pods that have been ready for longer than `minReadySeconds` are reported as available."""

    name = "pods are reported as available in time"
    patience_s = 60.0

    def settled(self, world: World) -> list[str]:
        wrong = []
        for owner in world.list(REPLICA_SETS.name):
            mine = [pod for pod in world.list("pods") if owner_uid(pod) == uid_of(owner) and is_active(pod)]
            ready, reported = sum(map(is_ready, mine)), lookup(owner, "status", "availableReplicas") or 0
            if reported != ready:
                wrong.append(f"{key_of(owner).name} reports {reported} available pods of {ready}")
        return wrong


def checkers() -> Sequence[Checker]:
    return [*at_home(), NobodyMakesTooMany(), TheUsefulStay(), AvailableInTime()]


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=("/pods", "/replicasets"),
        seconds=60,
        most=6,
        without=all_but("crash", "stop", "slow-reply", "slow-request", "drop-watch", "commit-unknown"),
    ),
    checkers=checkers,
    scale=8,
    timed=True,
)
async def pods_change_hands(world: World) -> None:
    """Pods without an owner are adopted, pods are given to another owner or released, and ReplicaSets become
    smaller: none ever has too many pods, ready ones stay, and in the end each has what it wants."""
    manage(world, ReplicaSets, kinds=("/pods", "/replicasets"))
    run_agent(world, NODE)
    for app in APPS:
        for number in range(2):
            await _orphan(world, app, number, sick=number == 0)
    await world.sleep(10)  # Every manager has heard of them.
    for app in APPS:
        await world.apply(REPLICA_SETS, _set(app, 4))
    await world.sleep(40)
    for _ in range(world.scale):
        await _change(world)
        await world.sleep(10 * world.rng.random())
    await world.heal_and_settle(quiet_s=QUIET_S + MIN_READY_S)


def _set(app: str, replicas: int) -> Obj:
    obj = replica_set(app, replicas)
    obj["spec"]["minReadySeconds"] = MIN_READY_S
    return obj


async def _orphan(world: World, app: str, number: int, *, sick: bool) -> None:
    meta = {"name": f"{app}-orphan-{number}", "labels": {"app": app}, "annotations": UNREADY if sick else {}}
    spec = pod_spec(node=NODE)
    spec["containers"][0] |= {"readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 2}}
    await world.apply(PODS, {"metadata": meta, "spec": spec})


async def _change(world: World) -> None:
    app = world.rng.choice(APPS)
    action = world.rng.choice(("smaller", "give", "give", "release", "collide"))
    if action == "collide":
        await _collide(world, app)
        return
    pods = _of(world, app)
    if action == "smaller" or not pods:
        await world.apply(REPLICA_SETS, _set(app, world.rng.randrange(2, 5)))
        await world.sleep(RIGHT_AFTER_S)
        return
    pod = world.rng.choice(pods)
    meta = {"uid": uid_of(pod), "resourceVersion": metadata(pod)["resourceVersion"]}
    if action == "release":
        patch = {"metadata": {**meta, "labels": {"app": "nobody"}}}
    else:
        other = APPS[1 - APPS.index(app)]
        owner = world.get(REPLICA_SETS.name, Key("default", other))
        reference = controller_of(pod)
        if owner is None or reference is None:
            return
        given = {**reference, "name": other, "uid": uid_of(owner)}
        patch = {"metadata": {**meta, "labels": {"app": other}, "ownerReferences": [given]}}
    await world.api.patch(PODS, "default", key_of(pod).name, patch)


async def _collide(world: World, app: str) -> None:
    """Somebody takes the name of the next pod when the ReplicaSet is about to create it."""
    names = {key_of(pod).name for pod in world.list("pods", "default")}
    name = next(name for number in range(99) if (name := f"{app}-{number}") not in names)
    taken = {"metadata": {"name": name, "labels": {"app": "nobody"}}, "spec": pod_spec(node=NODE)}
    await asyncio.gather(
        world.apply(REPLICA_SETS, _set(app, 4)),
        *(world.api.delete(PODS, *key_of(pod), uid=uid_of(pod)) for pod in _of(world, app)[:1]),
        world.api.create(PODS, "default", taken),
    )


def _of(world: World, app: str) -> list[Obj]:
    return [pod for pod in world.list("pods", "default") if is_active(pod) and _app(pod) == app]


def _app(pod: Obj) -> str:
    return str(lookup(pod, "metadata", "labels", "app") or "")


SCENARIOS: tuple[Scenario, ...] = (pods_change_hands,)
