"""Agents alone with their pods, which the scenario creates, deletes and removes at once: no scheduler and no
controllers, so that every fault is the agents' own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.model.conditions import conditions_of, is_true, set_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.resources import LEASES, NODES, PODS
from fathom.model.well_known import NODE_LEASE_NAMESPACE
from fathom.sim.checkers import at_home
from fathom.sim.checkers.final_state import WhenSettled
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.staff import all_but, run_agent
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

AGENTS = ("node-1", "node-2")
SCRIPTS = {
    "sound": "{}",
    "falters": '{"falters": 4}',
    "crashes": '{"fail": "crash"}',
    "slow": '{"image_s": 6}',
    "lingers": '{"stop_s": 1.5}',
    "ends": '{"runs_s": 1}',
}
PROBE = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
# Shorter than live ones, so that other writes come in between.
RENEW_S, STATUS_S = 2.0, 3.0
QUIET_S = 20.0
KILLED = 137
SERVICED = "Serviced"


class OneFailureIsNone(Checker):
    """A probe that fails now and then, but never as often in a row as its threshold, changes nothing."""

    name = "one failed probe changes nothing"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        if old is None or new is None or is_deleting(new) or labels_of(new).get("app") != "falters":
            return None
        if is_true(old, "Ready") and not is_true(new, "Ready"):
            return f"{change.by} reports that {change.key.name} is no longer ready"
        restarts = [status.get("restartCount") for status in lookup(new, "status", "containerStatuses") or ()]
        return f"{change.by} restarted {change.key.name}" if any(restarts) else None


class AgentsAreHeard(Checker):
    """A running agent has a node and renews its lease. The times in leases say nothing about when: they are
    of the agent's clock, which may be wrong."""

    name = "every running agent has a node and renews its lease"
    resources = frozenset({LEASES.name})
    patience_s = WhenSettled.patience_s

    def __init__(self, *agents: str) -> None:
        self._agents = agents
        self._renewed_s: dict[Key, float] = {}  # When a renewal was last stored.

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            self._renewed_s.pop(change.key, None)
        elif _renewed(change.new) != _renewed(change.old):
            self._renewed_s[change.key] = change.at_s
        return None

    def settled(self, world: World) -> Iterable[str | Finding]:
        for name in self._agents:
            renewed_s = self._renewed_s.get(Key(NODE_LEASE_NAMESPACE, name))
            if world.get(NODES.name, Key("", name)) is None or renewed_s is None:
                yield f"{name} runs, but it has no Node or no Lease"
            elif world.now_s - renewed_s > 3 * RENEW_S:
                yield f"{name} runs, but it last renewed its lease {world.now_s - renewed_s:.0f} s ago"


def _renewed(lease: Obj | None) -> str:
    return str(lookup(lease, "spec", "renewTime"))


class NobodyIsKilledInTime(Checker):
    """The last pods, which no fault affects, end by themselves within their grace period when they are
    deleted. (A pod that is deleted before it starts, or while its agent is down, has no grace left.)"""

    name = "no container is killed within its grace period"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        if change.new is None or not change.key.name.startswith("last-"):
            return None
        for status in lookup(change.new, "status", "containerStatuses") or ():
            if lookup(status, "state", "terminated", "exitCode") == KILLED:
                return f"{change.by} killed a container of {change.key.name}"
        return None


def going(world: World) -> Iterable[str | Finding]:
    for pod in world.list("pods"):
        if is_deleting(pod):
            name = key_of(pod).name
            yield Finding(f"{name} is being deleted, but no agent removes it", (f"pods/default/{name}",))


def at_rest(*agents: str) -> Sequence[Checker]:
    return [
        WhenSettled("deleted pods go away", going),
        AgentsAreHeard(*agents),
    ]


def checkers() -> Sequence[Checker]:
    return [*at_home(), OneFailureIsNone(), NobodyIsKilledInTime(), *at_rest(*AGENTS)]


@scenario(
    Menu(
        processes=AGENTS,
        kinds=("/pods", "/nodes"),
        seconds=20,
        most=8,
        without=all_but("crash", "stop", "pause", "hold-watch", "drop-watch", "slow-request", "slow-reply"),
    ),
    checkers=checkers,
    scale=24,
)
async def agents_alone(world: World) -> None:
    """Pods start, crash, fail probes, are deleted before they run and removed at once while they run, and
    another client writes conditions of the nodes: agents report what runs, and every deleted pod goes."""
    for name in AGENTS:
        run_agent(world, name, renew_s=RENEW_S, status_s=STATUS_S)
    await world.until(
        lambda: len(world.list("nodes")) == len(AGENTS), within_s=60, what="both nodes are registered"
    )
    for number in range(world.scale):
        await world.apply(PODS, scripted(f"p-{number}", world.rng.choice(tuple(SCRIPTS)), number))
        await report_on(world, AGENTS[number // 2 % 2])
        await world.sleep(world.rng.random())
        if world.rng.random() < 0.6:
            await take_away(world)
        if number % 8 == 7:
            await take_node_away(world, world.rng.choice(AGENTS))
    world.heal()
    await until_the_last_is_gone(world)
    await world.settle(quiet_s=QUIET_S, within_s=600)


def scripted(name: str, app: str, number: int) -> Obj:
    spec = pod_spec(node=AGENTS[number % 2])
    spec["containers"][0] |= {"readinessProbe": PROBE, "livenessProbe": PROBE}
    if app == "ends":
        spec |= {"restartPolicy": "Never", "initContainers": [{"name": "first", "image": "example/app"}]}
        del spec["containers"][0]["readinessProbe"], spec["containers"][0]["livenessProbe"]
    notes = {"fathom.dev/simulated": SCRIPTS[app]}
    return {"metadata": {"name": name, "labels": {"app": app}, "annotations": notes}, "spec": spec}


async def report_on(world: World, name: str) -> None:
    """Another client writes a condition of the node; if its write is refused as too old, it tries again
    later."""
    node = world.get(NODES.name, Key("", name))
    if node is None:
        return
    status = "False" if is_true(node, SERVICED) else "True"
    now = f"2026-02-01T00:{int(world.now_s) // 60:02}:{int(world.now_s) % 60:02}Z"
    conditions = set_condition(conditions_of(node), type=SERVICED, status=status, reason="Seen", now=now)  # type: ignore[arg-type]  # One of two.
    patch = {
        "metadata": {"resourceVersion": metadata(node)["resourceVersion"]},
        "status": {"conditions": conditions},
    }
    await world.api.patch(NODES, "", name, patch, subresource="status")


async def take_away(world: World) -> None:
    pods = [pod for pod in world.list("pods") if not is_deleting(pod)]
    if pods:
        pod = world.rng.choice(pods)
        grace_s = 0 if world.rng.random() < 0.3 else None
        await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod), grace_s=grace_s)


async def take_node_away(world: World, name: str) -> None:
    """Delete the lease of the node or the node itself: a running agent creates it again."""
    resource, key = (
        (LEASES, Key(NODE_LEASE_NAMESPACE, name)) if world.rng.random() < 0.5 else (NODES, Key("", name))
    )
    existing = world.get(resource.name, key)
    if existing is not None:
        await world.api.delete(resource, key.namespace, name, uid=uid_of(existing))


async def until_the_last_is_gone(world: World) -> None:
    """Pods that crash for ever keep the world from settling. Without faults, deleted pods go soon."""
    for number in range(len(AGENTS)):
        await world.apply(PODS, scripted(f"last-{number}", "lingers", number))
    await world.sleep(15)
    pods = [pod for pod in world.list("pods") if labels_of(pod).get("app") in {"crashes", "lingers"}]
    for pod in pods:
        await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod))
    uids = {uid_of(pod) for pod in pods}
    await world.until(
        lambda: not any(uid_of(pod) in uids for pod in world.list("pods")),
        within_s=15,
        what="without faults, the deleted pods are gone",
    )


SCENARIOS: tuple[Scenario, ...] = (agents_alone,)
