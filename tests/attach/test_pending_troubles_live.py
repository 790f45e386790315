"""The pending troubles of our own server, on a server that knows nothing of fathom: the attached scheduler
cannot place the pod, and `fathom why`, asked of the copy, names the cause first and proposes the change.

Left out are troubles whose cause is not there: tenants' quotas and policies are kinds that are not installed,
Deployments and ResourceQuotas have no controller here.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attach.real import add_node
from tests.attach.test_attach_live import attached, fathom, install_policy, plain_server, started
from tests.cli.asking import node
from tests.clients.kubectl import Kubectl
from tests.clients.running import Kubernetes
from tests.cluster.living import Obj
from tests.cluster.simulated_nodes import NODE_CPU, ZONES, Place
from tests.cluster.test_pending_troubles_live import TROUBLES
from tests.cluster.troubles import Ask, Step, Trouble, answer_with, asking, solve

from fathom.kinds.override_policy import SETTLES_S

pytestmark = [pytest.mark.live, pytest.mark.full]

NAMES = (
    "gate", "topology spread", "taint", "node affinity", "wrong selector", "resources", "host port", "cordon",
    "pod affinity", "pod anti affinity", "claim", "preemption under way", "preempted victim",
    "room held for others",
)  # fmt: skip
LOOK_S = 0.2
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class Kubelets(threading.Thread):
    """What kubelets do, for all nodes: pods with a node run, and those in deletion go after their time."""

    def __init__(self, server: Kubernetes) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self._server = server
        self._deleting: dict[str, int] = {}  # UID -> looks since.

    def run(self) -> None:
        while not self.over.wait(LOOK_S):
            for pod in self._server.request("GET", "/api/v1/pods")["items"]:
                if pod["spec"].get("nodeName"):
                    self._look_after(pod)

    def _look_after(self, pod: Obj) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            looks = self._deleting[meta["uid"]] = self._deleting.get(meta["uid"], 0) + 1
            script = json.loads(meta["annotations"]["fathom.dev/simulated"])
            if looks * LOOK_S >= script.get("stop_s", 0):
                self._server.request("DELETE", path, {"gracePeriodSeconds": 0})
        elif pod["status"].get("phase") != "Running":
            self._server.patch(f"{path}/status", {"status": running(pod)})


def running(pod: Obj) -> Obj:
    since = "2026-01-01T00:00:00Z"
    conditions = [each for each in pod["status"].get("conditions") or () if each["type"] == "PodScheduled"]
    conditions += [{"type": type_, "status": "True"} for type_ in ("Ready", "ContainersReady", "Initialized")]
    container = {
        "name": "main",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "i",
        "imageID": "i",
    }
    container["state"] = {"running": {"startedAt": since}}
    return {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "startTime": since,
        "conditions": conditions,
        "containerStatuses": [container],
    }


class AttachedPlace(Place):
    def pod(self, name: str = "web", cpu: Any = "100m", *, on: int | None = None, **fields: Any) -> Obj:
        return super().pod(name, cpu, on=on, **{"schedulerName": "fathom", **fields})


class Cluster:
    """As much of a cluster as a place needs."""

    def __init__(self, server: Kubernetes, log: Path) -> None:
        self.request, self.patch, self._log = server.request, server.patch, log

    def logs(self) -> str:
        return self._log.read_text()[-3000:]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with plain_server(tmp_path_factory.mktemp("foreign")) as server:
        install_policy(server)
        for number in range(2 * len(NAMES) + 4):
            made = node(f"node-{number}", str(NODE_CPU))
            made["metadata"]["labels"] = {ZONE: ZONES[number % 2], HOST: f"node-{number}"}
            add_node(server, made)
        kubelets = Kubelets(server)
        kubelets.start()
        yield server
        kubelets.over.set()
        kubelets.join(30)


@pytest.fixture(scope="module")
def copy(foreign: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of an attached fathom."""
    data = tmp_path_factory.mktemp("attached") / "copy"
    with started(attached(foreign, data, "--yes"), data.parent / "attach.log"):
        yield data


@pytest.fixture(scope="module")
def pools() -> Iterator[tuple[str, str]]:
    return iter([(f"node-{number}", f"node-{number + 1}") for number in range(0, 2 * len(NAMES) + 4, 2)])


@pytest.fixture(scope="module")
def admin(foreign: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    binary = shutil.which("kubectl")
    if binary is None:
        pytest.skip("kubectl is not installed")
    return Kubectl(binary, foreign.kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.fixture
def place(
    foreign: Kubernetes,
    copy: Path,
    admin: Kubectl,
    pools: Iterator[tuple[str, str]],
    record_property: Callable[[str, Any], None],
) -> Place:
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    cluster: Any = Cluster(foreign, copy.parent / "attach.log")
    return AttachedPlace(cluster, admin, next(pools), random.Random(seed))


@pytest.fixture
def ask(copy: Path, place: Place, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking(copy / "kubeconfig", place.namespace, capsys)


@pytest.mark.parametrize("name", NAMES)
def test_attached_the_first_line_names_the_cause_and_the_change_gives_the_pod_a_node(
    name: str, place: Place, ask: Ask
) -> None:
    solve(TROUBLES[name](place), ask, place, place.cluster.logs)


def test_attached_a_scheduler_that_is_not_known_is_named_and_no_command_starts_it(
    place: Place, ask: Ask
) -> None:
    """Which program has that name, only people of that cluster know."""
    (step,) = TROUBLES["scheduler of another name"](place).steps
    assert not (answer_with("pod/web", step, ask, place.cluster.logs)["change"] or {}).get("command")


def test_attached_an_override_is_named_and_ending_it_gives_the_pod_a_node(
    foreign: Kubernetes, place: Place, ask: Ask
) -> None:
    """Decoy: a taint on the other node. The policy must be some seconds older than the override."""
    place.taint(1)
    time.sleep(SETTLES_S + 2)
    flags = ("--target=workload/web", "--scope=cluster", "--reason=a drill", "--for=10m", "--yes", "--wait")
    where = ("-n", place.namespace, "--kubeconfig", str(foreign.kubeconfig))
    fathom("override", "create", place.word, *where, *flags, f"--avoid-node={place.nodes[0]}")
    place.create(place.pod())
    named = f"{place.namespace}/{place.word}"
    step = Step(says=(f"override/{named}", f"end override {named}"), never=("taint",))
    solve(Trouble(steps=(step,)), ask, place, place.cluster.logs)
