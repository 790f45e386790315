"""Shows the state of the brake in one object, the ConfigMap `fathom-system/node-brake-status`.

It has the limits in force, whether the brake holds anything back, and which nodes, since when and why. The
decisions are made in `brake`.

    kubectl -n fathom-system get configmap node-brake-status -o yaml
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.plan import NOTHING, Create, Patch, Plan, contains, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import NAMESPACE, NODE, Primary, Related, View, Watch
from fathom.controllers.node_health.controller import BRAKE_LIMITS
from fathom.controllers.node_health.plan import HELD, zone_of
from fathom.metrics.families import Family, gauge
from fathom.model.brake import BRAKE, SHOWN, limits_of, shown_limits
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.decision import considered
from fathom.model.declared import Reads, Timer, Writes
from fathom.model.objects import Key, Obj, is_deleting, key_of

ANCHOR = Key("", SHOWN.namespace)  # The namespace under whose key it is reconciled.
LOOK_S = 5.0  # As often as unhealthy nodes are looked at.
ZONES_MAX = 100  # Limit of metrics: nodes choose their own zone label.
NODES_SHOWN_MAX = 200  # More would make the object too large to read.
ABOUT = "Written by fathom: changes are overwritten. Limits are set in the ConfigMap node-brake."


def _of_brake(config: Obj, view: View) -> Iterable[Key]:
    return (ANCHOR,) if key_of(config) in {BRAKE, SHOWN} else ()


class BrakeStatus:
    name = "node-brake-status"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(NAMESPACE, conditions=False),
        Related(BRAKE_LIMITS, concerns=_of_brake),
        Related(NODE),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Namespace", ()),
        Reads("ConfigMap", ("data",)),
        Reads("Node", ("metadata.labels", "status.conditions")),
    )
    writes: ClassVar[tuple[Writes, ...]] = (Writes("ConfigMap", ("data",), creates=True),)
    timers: ClassVar[tuple[Timer, ...]] = (Timer("state of the brake", LOOK_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    @staticmethod
    def measure(view: Snapshot) -> Iterable[Family]:
        limits, _ = limits_of((view.get("ConfigMap", BRAKE) or {}).get("data") or {})
        nodes = [node for node in view.list("Node") if _held(node) is not None]
        engaged = "1 while the brake on reactions to silent nodes is engaged by hand."
        yield gauge("fathom_node_brake_engaged", engaged, int(limits.engaged))
        held_nodes = Family(
            "fathom_node_brake_held_nodes", "gauge", "Nodes that the brake holds reactions to, by zone."
        )
        zones = Counter(zone_of(node) for node in nodes)
        for zone in sorted({zone_of(node) for node in view.list("Node")})[:ZONES_MAX]:
            held_nodes.add(zones[zone], {"zone": zone})
        yield held_nodes

    async def reconcile(self, key: Key) -> ReconcileResult:
        if key != ANCHOR:
            return ReconcileResult.never()
        view = self._kit.snapshot()
        namespace = view.get("Namespace", key)
        if namespace is None or is_deleting(namespace):
            return ReconcileResult.never()
        limits = view.get("ConfigMap", BRAKE)
        plan = plan_shown(view.get("ConfigMap", SHOWN), shown(limits, view.list("Node")), limits)
        return ReconcileResult.after(
            await self._kit.apply(key, plan, seen=view), in_s=LOOK_S, why="look at the nodes"
        )


def shown(config: Obj | None, nodes: Iterable[Obj]) -> dict[str, str]:
    """The ConfigMap's data: no counts and no ages, which would change without anything to act on."""
    limits, wrong = limits_of((config or {}).get("data") or {})
    held = [
        (zone_of(node), key_of(node).name, condition)
        for node in nodes
        if (condition := _held(node)) is not None
    ]
    held.sort(key=lambda entry: entry[:2])
    return {
        "about": ABOUT,
        **shown_limits(limits),
        "holds": "true" if held or limits.engaged else "false",
        "zones": "\n".join(_zones(held)),
        "held": "\n".join(_lines(held)),
        "wrong": wrong,
    }


def _held(node: Obj) -> Obj | None:
    condition = find_condition(conditions_of(node), HELD)
    return condition if condition is not None and condition.get("status") == "True" else None


def _zones(held: list[tuple[str, str, Obj]]) -> list[str]:
    since: dict[str, str] = {}
    for zone, _, condition in held:
        at = str(condition.get("lastTransitionTime"))
        since[zone] = min(since.get(zone, at), at)
    return [f"{zone or 'without a zone'}: holds since {at}" for zone, at in sorted(since.items())]


def _lines(held: list[tuple[str, str, Obj]]) -> list[str]:
    lines = [
        f"{name}: since {condition.get('lastTransitionTime')}: {condition.get('message')}"
        for _, name, condition in held
    ]
    more = [f"and {len(lines) - NODES_SHOWN_MAX} more"] if len(lines) > NODES_SHOWN_MAX else []
    return [*lines[:NODES_SHOWN_MAX], *more]


def plan_shown(current: Obj | None, data: dict[str, str], limits: Obj | None = None) -> Plan:
    """`limits`: the ConfigMap that `data` shows the limits of; None: the defaults hold."""
    cited = () if limits is None else (considered("configmaps", limits, decisive=True),)
    if current is None:
        meta = {"namespace": SHOWN.namespace, "name": SHOWN.name}
        return Plan(
            creates=(Create("ConfigMap", {"metadata": meta, "data": data}),),
            considered=cited,
            why="create the brake status",
        )
    if is_deleting(current):
        return NOTHING
    removed = {name: None for name in current.get("data") or {} if name not in data}
    patch: Obj = {"data": {**data, **removed}}
    if contains(current, patch):
        return NOTHING
    return Plan(
        patches=(Patch(target("ConfigMap", current), patch),),
        considered=cited,
        why="the brake's state changed",
    )
