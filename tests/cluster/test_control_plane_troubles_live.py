"""A running cluster whose control plane is the cause: `fathom why` says so before anything else, though the
pod has another trouble, and the pod is well after the change.

The scheduler reaches the API server through a proxy, which can hold its watch of quotas or refuse its
requests. One agent is killed while its pods run. Containers are simulated."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from live_cluster import Cluster, QuotaWatchProxy
from tests.clients.kubectl import Kubectl
from tests.cluster.living import until
from tests.cluster.programs import own
from tests.cluster.simulated_nodes import ZONES, Place
from tests.cluster.troubles import READY_S, Ask, Step, Trouble, asking, solve

NODES = 8


class Proxy(QuotaWatchProxy):
    """Can also refuse what the scheduler writes and reads, as an API server whose store is unwell does."""

    refuses = False

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        # Its watches go on, and so do its leases: it leads, and decides from what it has seen.
        if self.refuses and "watch" not in request.query and "/leases" not in request.path:
            return web.Response(status=503, text="the store is unwell")
        return await super()._answer(request)


class TroubledCluster(Cluster):
    background: list[subprocess.Popen[bytes]]  # Servers that were started as an answer proposed.

    def make_proxy(self, upstream: Path, pki: Path) -> Proxy:
        return Proxy(upstream, pki)

    def kill(self, part: str) -> None:
        process = self.processes.pop(part)
        process.kill()
        process.wait(20)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TroubledCluster]:
    cluster = TroubledCluster(tmp_path_factory.mktemp("parts"), nodes=NODES, zones=ZONES)
    cluster.background = []
    try:
        cluster.start()
        cluster.start_agents("mortal-agent", "--node", "mortal", "--nodes", "2")
        until(lambda: cluster.ready_nodes() == NODES + 2, cluster.logs)
        yield cluster
    finally:
        for process in cluster.background:
            process.terminate()
            process.wait(20)
        cluster.stop()


@pytest.fixture(scope="module")
def pools() -> Iterator[tuple[str, str]]:
    return iter([("node-1", "mortal-1"), *((f"node-{n}", f"node-{n + 1}") for n in range(2, NODES, 2))])


@pytest.fixture(scope="module")
def place_of(
    parts: TroubledCluster, kubectl_binary: str, pools: Iterator[tuple[str, str]], kubectl_home: Path
) -> Callable[[], Place]:
    admin = Kubectl(kubectl_binary, parts.data / "kubeconfig", kubectl_home)

    def new_place() -> Place:
        place = Place(parts, admin, next(pools), random.Random(random.SystemRandom().randrange(1 << 32)))
        place.background = parts.background
        return place

    return new_place


@pytest.fixture(scope="module")
def silent(parts: TroubledCluster, place_of: Callable[[], Place]) -> Place:
    """A Deployment on a node whose agent is killed now: it takes a while until the node counts as lost. The
    brake is engaged, and the other node is free."""
    place = place_of()
    place.shared.ok("create configmap node-brake -n fathom-system --from-literal=engaged=true")
    place.cordon(0)
    place.create(place.deployment())
    place.kubectl.ok("wait deployment/web --for=condition=Available --timeout=40s")
    place.node(place.nodes[0], {"spec": {"unschedulable": None}})
    parts.kill("mortal-agent")
    return place


Asking = Callable[[Place], Ask]
Record = Callable[[str, Any], None]


@pytest.fixture
def ask_in(parts: TroubledCluster, capsys: pytest.CaptureFixture[str]) -> Asking:
    return lambda place: asking(parts.data / "kubeconfig", place.namespace, capsys)


def held_quota(place: Place) -> None:
    """A pod that waits for a quota, which is raised while the scheduler's watch of quotas is held."""
    proxy = place.cluster.proxy
    used = place.rng.randrange(100, 900)
    place.shared.create(own("TenantQuota", place.namespace, limits=[{"resources": {"cpu": f"{used}m"}}]))
    place.placed(place.pod("old", cpu=f"{used}m", on=0))
    place.create(place.pod(cpu=f"{used}m"))
    place.kubectl.ok("wait pod/web --for=condition=PodScheduled=False --timeout=40s")
    proxy.hold()
    patch = {"spec": {"limits": [{"resources": {"cpu": f"{2 * used}m"}}]}}
    place.cluster.patch(f"/apis/fathom.dev/v1alpha1/tenantquotas/{place.namespace}", patch)


@pytest.mark.full
def test_a_stale_view_of_the_scheduler_is_the_cause(
    silent: Place, place_of: Callable[[], Place], ask_in: Asking, record_property: Record
) -> None:
    """Decoy: a node is cordoned."""
    place = place_of()
    place.cordon(1)
    held_quota(place)
    says = ("waits for a node: the scheduler's view of TenantQuota is stale", "the latest change is")
    step = Step(says=says, never=("cordon",), waits=True, act=place.cluster.proxy.release)
    solved_s = solve(Trouble(steps=(step,)), ask_in(place), place, place.cluster.logs)
    record_property(READY_S, ("stale view", solved_s))


def test_a_breaker_that_is_open_is_the_cause(
    silent: Place, place_of: Callable[[], Place], ask_in: Asking, record_property: Record
) -> None:
    """Decoys: a node is cordoned, and the other one is too small for one of the pods."""
    place = place_of()
    place.cordon(1)
    proxy = place.cluster.proxy
    assert isinstance(proxy, Proxy)
    proxy.refuses = True
    place.create(*(place.pod(f"other-{n}") for n in range(8)), place.pod())

    def heal() -> None:
        proxy.refuses = False

    says = ("waits for a node: the scheduler (scheduler) sends no requests", "503")
    step = Step(says=says, never=("cordon",), waits=True, act=heal)
    solved_s = solve(Trouble(steps=(step,)), ask_in(place), place, place.cluster.logs)
    record_property(READY_S, ("breaker", solved_s))


def test_a_scheduler_that_is_dead_is_the_cause_and_another_one_is_started_as_proposed(
    parts: TroubledCluster,
    silent: Place,
    place_of: Callable[[], Place],
    ask_in: Asking,
    record_property: Record,
) -> None:
    """Decoys: a node is cordoned, and the pod requests more than any node has: that comes after."""
    place = place_of()
    place.cordon(1)
    parts.kill("scheduler")
    place.create(place.pod(cpu=9))
    dead = Step(
        says=(
            "nobody leads the scheduler: lease fathom-system/scheduler was last renewed",
            "start a scheduler",
        ),
        never=("cpu", "cordon"),
        background=True,
    )
    steps = (dead, Step(says=("too little free cpu", "lower cpu of container main to 8")))
    record_property(
        READY_S, ("scheduler dead", solve(Trouble(steps=steps), ask_in(place), place, parts.logs))
    )


@pytest.mark.full
def test_a_brake_and_then_a_lost_node_are_the_cause_and_the_pod_is_replaced(
    parts: TroubledCluster, silent: Place, ask_in: Asking, record_property: Record
) -> None:
    """Decoy: its agent's last report says that all is well."""
    (pod,) = silent.kubectl.json("get pods")["items"]
    node = silent.nodes[1]
    braked = Step(
        says=(f"its node {node} is suspect", "the brake on node actions holds: the brake is engaged by hand"),
    )
    lost = Step(says=(f"its node {node} is unreachable since", f"repair node {node}, or declare it lost"))
    trouble = Trouble(subject=f"pod/{pod['metadata']['name']}", steps=(braked, lost), wanted="deployment/web")
    record_property(READY_S, ("brake, node lost", solve(trouble, ask_in(silent), silent, parts.logs)))
