"""A cluster with a long past, for `fathom bench why`: API server, scheduler, pods, journal, audit log.

The past is made by the code that makes a real one (`history`), before the scheduler starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from fathom.bench.drive import Lane, drive
from fathom.bench.errors import BenchFailed
from fathom.bench.history import write_audit, write_decisions
from fathom.bench.requests import Asker, expect
from fathom.bench.schedule import create_all
from fathom.bench.session import Session, ask
from fathom.bench.workloads import Obj, node, pod
from fathom.record.journals import journal_directory

PODS = b"/api/v1/namespaces/default/pods"
JOURNAL_MIB = 1024
CONNECTIONS = 32
PER_NODE = 40  # Pods of 100m on nodes of 4 CPU.
WAIT_S_MAX = 300.0
EVERY_S = 0.5
BEGAN = "2026-01-01T00:00:00Z"


class WhyLoad(msgspec.Struct, frozen=True):
    nodes: int = 1000
    pods: int = 10_000
    waiting: int = 100  # Of these pods: too large for any node.
    decisions: int = 1_000_000
    writes: int = 1_000_000
    questions: int = 100
    seed: int = 1


class JournalSize(msgspec.Struct, frozen=True):
    """Bytes per decision, outcomes and tables included."""

    written: float  # Before packing.
    stored: float  # On disk, with the index.
    stored_mb: float  # Of the whole journal.


class _PodList(msgspec.Struct):
    items: list[Obj]


class AskedCluster:
    def __init__(self, open_session: Session, scratch: Path, load: WhyLoad) -> None:
        if open_session.kubeconfig is None:
            raise BenchFailed("the API server wrote no kubeconfig")
        self.session, self.load = open_session, load
        self.kubeconfig = open_session.kubeconfig
        self.audit = self.kubeconfig.parent / "audit"
        self.data = scratch / "scheduler"
        self.data.mkdir()
        self.decisions = 0
        self._scratch = scratch
        self._asker = Asker(open_session.target, namespace="", object_bytes=0)
        self._connections = open_session.connect(CONNECTIONS)
        self._nodes = [node(number) for number in range(load.nodes)]

    def make_pods(self) -> list[Obj]:
        create_all(self.session, self._connections, b"/api/v1/nodes", self._nodes)
        pods = [_pod(number, waits=number < self.load.waiting) for number in range(self.load.pods)]
        create_all(self.session, self._connections, PODS, pods)
        return self._listed()

    def make_history(self, pods: Sequence[Obj]) -> JournalSize:
        """The API server runs already, and finds older files of its audit log."""
        now_ns, directory = time.time_ns(), journal_directory(self.data, "scheduler")
        history = write_decisions(
            directory, self._nodes, pods,
            rounds=max(1, self.load.decisions // self.load.pods),
            budget_bytes=JOURNAL_MIB << 20, until_ns=now_ns,
        )  # fmt: skip
        self.decisions = history.decisions
        written = write_audit(self._scratch / "audit", pods, writes=self.load.writes, until_ns=now_ns)
        for age, path in enumerate(reversed(written), 1):
            path.rename(self.audit / f"audit.jsonl.{age}")
        stored = size_of(directory)
        written_each, stored_each = (round(size / history.decisions, 1) for size in (history.bytes, stored))
        return JournalSize(written_each, stored_each, round(stored / 1e6, 1))

    def run_pods(self) -> None:
        """Wait until every pod that fits is bound, then report all of these as ready, as agents would."""
        self._until(lambda: len(self._listed("spec.nodeName=")) <= self.load.waiting, "all pods are bound")
        bound = iter(self._listed("spec.nodeName!="))
        drive(self._connections, [self._report_ready(bound) for _ in self._connections])

    def _report_ready(self, pods: Iterator[Obj]) -> Lane:
        for obj in pods:
            path = b"%s/%s/status" % (PODS, obj["metadata"]["name"].encode())
            body = msgspec.json.encode({**obj, "status": _ready_status(obj)})
            expect((yield self._asker.send(b"PUT", path, body)), 200, "writing a pod's status")

    def _listed(self, field_selector: str = "") -> list[Obj]:
        query = field_selector.replace("!", "%21").replace("=", "%3D").encode()
        answer = ask(self.session.target, self._asker.get(PODS + b"?fieldSelector=" + query))
        return msgspec.json.decode(expect(answer, 200, "a list").body, type=_PodList).items

    def _until(self, check: Callable[[], bool], expected: str) -> None:
        deadline_s = time.perf_counter() + WAIT_S_MAX
        while not check():
            if time.perf_counter() > deadline_s:
                raise BenchFailed(f"timeout after {WAIT_S_MAX:g} s: {expected}")
            time.sleep(EVERY_S)


def _pod(number: int, *, waits: bool) -> Obj:
    return pod(pod_name(number), cpu="8" if waits else "100m", labels={"app": f"app-{number % 100}"})


def pod_name(number: int) -> str:
    return f"pod-{number:05d}"


def _ready_status(obj: Obj) -> Obj:
    names = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    conditions = [{"type": name, "status": "True", "lastTransitionTime": BEGAN} for name in names]
    containers = [
        {
            "name": container["name"], "image": container["image"], "imageID": "", "ready": True,
            "started": True, "restartCount": 0, "state": {"running": {"startedAt": BEGAN}},
        }
        for container in obj["spec"]["containers"]
    ]  # fmt: skip
    return {
        "phase": "Running", "podIP": "10.0.0.1", "startTime": BEGAN,
        "conditions": conditions, "containerStatuses": containers,
    }  # fmt: skip


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir() if path.is_file())
