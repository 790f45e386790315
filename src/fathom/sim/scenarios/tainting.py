"""A person taints a node with NoExecute: each pod stays for as long as it tolerates the taint, and no
longer."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Key, Obj, is_deleting, uid_of
from fathom.model.resources import NODES as NODE_KIND
from fathom.model.resources import PODS
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.real import DECIDERS, NODES, run_real_cluster, standard
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = NODES[0]
KEY, VALUE = "example.com/repair", "disk"
BEARS_S = 30
# Times are recorded in whole seconds, by two processes.
ROUNDED_S = 2.0
FOR_EVER: Obj = {"key": KEY, "operator": "Exists"}
TAINT: Obj = {"key": KEY, "value": VALUE, "effect": "NoExecute"}
FOR_A_WHILE: Obj = {**TAINT, "operator": "Equal", "tolerationSeconds": BEARS_S}

TOLERATIONS: dict[str, list[Obj]] = {
    "bears-nothing": [],
    "bears-another": [{"key": KEY, "operator": "Equal", "value": "network"}],
    "bears-another-effect": [{"key": KEY, "operator": "Exists", "effect": "NoSchedule"}],
    "bears-it-a-while": [FOR_A_WHILE],
    "bears-it-twice": [FOR_A_WHILE, FOR_EVER],  # The first one counts.
    "bears-it": [FOR_EVER],
    "bears-all": [{"operator": "Exists"}],
}
STAY = ("bears-it", "bears-all")
WAIT = ("bears-it-a-while", "bears-it-twice")
LATE = "late-"


class LateComersHaveTheirTime(Checker):
    """Of pods that came when the taint was there: each may stay for its own time."""

    name = "pods stay for as long as they tolerate a taint"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self._came_s: dict[str, float] = {}  # By UID.

    def commit(self, change: Seen) -> Found:
        if change.old is None and change.new is not None:
            self._came_s[uid_of(change.new)] = change.at_s
        going = change.old is not None and not is_deleting(change.old)
        going = going and (change.new is None or is_deleting(change.new))
        if not going or not change.key.name.startswith(LATE):
            return None
        stayed_s = change.at_s - self._came_s[uid_of(change.old or {})]
        if stayed_s >= BEARS_S - ROUNDED_S:
            return None
        return f"{change.by} evicted the pod {stayed_s:.0f} s after it came, before its toleration ended"


class NobodyIsDrivenTooSoon(Checker):
    """Of the pods that tolerate the taint, for a time or for ever."""

    name = "pods stay for as long as they tolerate a taint"
    resources = frozenset({"pods", "nodes"})

    def __init__(self) -> None:
        self._since_s: float | None = None

    def commit(self, change: Seen) -> Found:
        if change.resource == "nodes":
            if self._since_s is None and any(taint.get("key") == KEY for taint in _taints(change.new)):
                self._since_s = change.at_s
            return None
        going = change.new is None or is_deleting(change.new)
        if not going or change.key.name not in {*STAY, *WAIT} or is_deleting(change.old or {}):
            return None
        if change.key.name in STAY:
            return f"{change.by} evicted the pod, which tolerates the taint for ever"
        beside_s = 0.0 if self._since_s is None else change.at_s - self._since_s
        soon = beside_s < BEARS_S - ROUNDED_S
        return (
            f"{change.by} evicted the pod {beside_s:.0f} s after the taint, before its toleration ended"
            if soon
            else None
        )


def _taints(node: Obj | None) -> Sequence[Obj]:
    return (node or {}).get("spec", {}).get("taints") or ()


def checkers() -> Sequence[Checker]:
    return [*standard(), NobodyIsDrivenTooSoon()]


@scenario(
    Menu(processes=DECIDERS, kinds=("/pods", "/nodes"), seconds=60, most=6, without=("skew",)),
    checkers=checkers,
)
async def driven_away(world: World) -> None:
    """A node gets a NoExecute taint for repair: pods that do not tolerate it are evicted, pods that tolerate
    it for 30 seconds stay that long, and pods that tolerate it stay, whichever process crashes meanwhile."""
    run_real_cluster(world, nodes=(NODE,))
    await world.until(
        lambda: world.get("nodes", Key("", NODE)) is not None, within_s=60, what="the node is registered"
    )
    for name, tolerations in TOLERATIONS.items():
        spec = {**pod_spec(node=NODE), "tolerations": tolerations}
        await world.apply(PODS, {"metadata": {"name": name}, "spec": spec})
    await world.sleep(10 + 10 * world.rng.random())
    before = _existing_uids(world)
    await world.apply(NODE_KIND, _tainted(world))
    await world.sleep(60)
    world.heal()
    await world.until(
        lambda: set(_existing_uids(world)) == set(STAY),
        within_s=120,
        what="only the pods that tolerate the taint are left",
    )
    assert all(before[name] == uid for name, uid in _existing_uids(world).items()), "a pod was recreated"
    await world.settle(quiet_s=90, within_s=900)


def _existing_uids(world: World) -> dict[str, str]:
    pods = ((name, world.get("pods", Key("default", name))) for name in TOLERATIONS)
    return {name: uid_of(pod) for name, pod in pods if pod is not None}


def _tainted(world: World) -> Obj:
    taints = [
        *_taints(world.get("nodes", Key("", NODE))),
        {"key": KEY, "value": VALUE, "effect": "NoExecute"},
    ]
    return {"metadata": {"name": NODE}, "spec": {"taints": taints}}


@scenario(
    Menu(processes=DECIDERS, kinds=("/pods", "/nodes"), seconds=60, most=4, without=("skew",)),
    checkers=lambda: [*standard(), LateComersHaveTheirTime()],
)
async def came_after_the_taint(world: World) -> None:
    """Pods that tolerate a taint for 30 seconds come when it is already there, one after the other: each
    stays for its own 30 seconds, whichever process crashes meanwhile, and then leaves."""
    run_real_cluster(world, nodes=(NODE,))
    await world.until(
        lambda: world.get("nodes", Key("", NODE)) is not None, within_s=60, what="the node is registered"
    )
    await world.apply(NODE_KIND, _tainted(world))
    spec = {**pod_spec(node=NODE), "tolerations": [FOR_A_WHILE]}
    for number in range(4):
        await world.apply(PODS, {"metadata": {"name": f"{LATE}{number}"}, "spec": spec})
        await world.sleep(8 + 8 * world.rng.random())
    await world.sleep(20)
    world.heal()
    await world.until(lambda: not world.list("pods", "default"), within_s=180, what="all pods have left")
    await world.settle(quiet_s=90, within_s=900)


SCENARIOS: tuple[Scenario, ...] = (driven_away, came_after_the_taint)
