"""The same run without the override: at the end the two differ only in what is left, all of which is
listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from fathom.model.objects import Obj, key_of, lookup, metadata
from fathom.model.resource_names import RBAC_GROUP
from fathom.seams.streams import Streams
from fathom.sim.checkers.override_effects import ACCOUNT, MADE_BY, ROUTES, USED
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.oracle import Seeded

if TYPE_CHECKING:
    from fathom.sim.world.world import World

ROLES = {
    "Role": f"roles.{RBAC_GROUP}",
    "RoleBinding": f"rolebindings.{RBAC_GROUP}",
    "ClusterRole": f"clusterroles.{RBAC_GROUP}",
    "ClusterRoleBinding": f"clusterrolebindings.{RBAC_GROUP}",
    "ServiceAccount": "serviceaccounts",
}
DEADLINE_S = 1800.0  # As of every scenario.

# What overrides can leave: charges and marks of pods, taints and cordons, weights, roles; and how many
# replicas each workload wants and has. By the names that residue has: 'Pod default/web-1'.
Traces = dict[str, object]


def traces_of(world: World) -> Traces:
    traces: Traces = {}
    for pod in world.list("pods"):
        notes = metadata(pod).get("annotations") or {}
        lent = str(notes.get(ACCOUNT) or "").split("/")[3:]
        if lent or notes.get(USED):
            traces[_name("Pod", pod)] = (lent, notes.get(USED))
    for node in world.list("nodes"):
        cordoned, taints = lookup(node, "spec", "unschedulable"), lookup(node, "spec", "taints")
        if cordoned or taints:
            traces[_name("Node", node)] = (cordoned, taints)
    for route in world.list(ROUTES):
        marked = (metadata(route).get("annotations") or {}).get(MADE_BY)
        traces[_name("TrafficRoute", route)] = (lookup(route, "spec", "routes"), marked)
    for workload in world.list("deployments.apps"):
        wanted, ready = lookup(workload, "spec", "replicas"), lookup(workload, "status", "readyReplicas")
        traces[_name("Deployment", workload)] = (wanted, ready)
    for kind, resource in ROLES.items():
        traces |= dict.fromkeys((_name(kind, role) for role in world.list(resource)), "there")
    return traces


class DiffersOnlyInTheResidue(Checker):
    """The scenario calls `look` when the end of its override is settled. Its twin is the same scenario
    without the override, run with the same seed and the same faults."""

    name = "a run differs from one without its override only in the residue"

    def __init__(self, twin: Callable[[World], Awaitable[None]]) -> None:
        self._twin = twin
        self._traces: Traces | None = None
        self._residue: frozenset[str] = frozenset()

    def look(self, world: World, override: Obj) -> None:
        residue = lookup(override, "status", "residue") or ()
        self._traces, self._residue = traces_of(world), frozenset(str(each["object"]) for each in residue)

    def ended(self, world: World) -> Iterable[str | Finding]:
        if self._traces is None:
            return
        without = self._run_twin(world)
        if without is None:
            world.sometimes("the run without the override did not end")
            return
        differing = [
            name
            for name in sorted({*self._traces, *without})
            if self._traces.get(name) != without.get(name) and name not in self._residue
        ]
        if differing:
            name = differing[0]
            with_it, without_it = self._traces.get(name, "not there"), without.get(name, "not there")
            yield f"{name} is {with_it}, and {without_it} without the override; it is not listed as residue"
        world.sometimes("a run was compared with one without its override")

    def _run_twin(self, world: World) -> Traces | None:
        from fathom.sim.world.engine import Engine  # noqa: PLC0415 - it makes worlds.
        from fathom.sim.world.signing_key import world_key  # noqa: PLC0415
        from fathom.sim.world.world import World as AnyWorld  # noqa: PLC0415

        engine = Engine(
            world.engine.streams.seed,
            signing=world_key(),
            faults=world.engine.faults.planned,
            oracle=Seeded(Streams(world.engine.streams.seed)),
        )
        twin = AnyWorld(engine, servers=len(world.servers), scale=world.scale)
        try:
            twin.tell(self._twin, deadline_s=DEADLINE_S)
            return None if engine.violation is not None else traces_of(twin)
        finally:
            engine.end()


def _name(kind: str, obj: Obj) -> str:
    return f"{kind} {'/'.join(part for part in key_of(obj) if part)}"
