"""What each command prints for programs: the commands, the Structs of their documents, and an example."""

from typing import Any, NamedTuple

from fathom.attach.findings import AttachFinding
from fathom.bench.against_kopf import KopfComparison
from fathom.bench.cache import CacheResult
from fathom.bench.cluster import ClusterResult
from fathom.bench.decide import DecideResult, ScaleResult
from fathom.bench.record import RecordResult
from fathom.bench.recording_cost import RecordingCost
from fathom.bench.result import ApiResult, WatchResult
from fathom.bench.schedule import ScheduleResult
from fathom.bench.why import WhyResult
from fathom.chaos.report import ChaosReport
from fathom.cli.ask.top.now_view import NowView
from fathom.cli.ask.top.workload_view import WorkloadView
from fathom.cli.simulate.replay_tapes import ReplayedTape
from fathom.doctor import Finding
from fathom.explain.coupling.answer import Coupling
from fathom.explain.questions import StuckObjects
from fathom.explain.status import StatusView
from fathom.explain.timeline.timeline import Timeline
from fathom.explain.why.answer import Explanation
from fathom.kinds.preview_answer import Preview
from fathom.record.journal import KeptDecision
from fathom.record.replay import ReplayResult
from fathom.record.tape_list import TapeSummary
from fathom.sim.continuation import Continuation
from fathom.store.migrate import Migrated
from fathom.store.verify import Verified
from fathom.web.page import ShownSession


class Document(NamedTuple):
    title: str
    commands: tuple[str, ...]  # As `fathom COMMAND` has them.
    about: str
    shapes: tuple[type, ...] = ()
    example: Any = None


DOCUMENTS = (
    Document(
        "fathom why",
        ("why",),
        """`fathom why KIND/NAME -o json` prints an Explanation; of several objects, a list of
        them. Without a name: what is stuck, an object whose `items` are Explanations.
        [Why](why.md#the-document) says more about the fields.""",
        (Explanation,),
        {
            "subject": {
                "resource": "pods",
                "namespace": "shop",
                "name": "web-0",
                "uid": "4e1c3c0e-7f5b-4d6e-9a55-0f6a3f1f2a10",
            },
            "summary": "pod shop/web-0 is not scheduled: 3 of 3 nodes have too little free cpu."
            " Change: lower cpu of container web to 666m (the pod's owner)",
            "verdict": "is not scheduled",
            "asWanted": False,
            "cause": "3 of 3 nodes have too little free cpu (NodeResourcesFit)",
            "stage": "unschedulable",
            "change": {
                "what": "lower cpu of container web to 666m",
                "who": "the pod's owner",
                "nodes": 3,
                "oneOf": 1,
            },
            "groups": [
                {
                    "reason": "NodeResourcesFit: Insufficient cpu",
                    "count": 3,
                    "nodes": ["node-1", "node-2", "node-3"],
                }
            ],
            "freshness": [{"kind": "Node", "used": 126, "applied": 126, "latest": 126, "ageMs": 12}],
        },
    ),
    Document(
        "fathom why, without a name",
        (),
        "What is stuck, worst first.",
        (StuckObjects,),
        {"asWanted": True, "items": [], "gaps": []},
    ),
    Document(
        "fathom status",
        ("status",),
        """The joined view of one workload. Each field but `summary` has a `value` and its `source`.
        [Status](status.md) says what each is.""",
        (StatusView,),
        {
            "workload": {"resource": "deployments.apps", "namespace": "shop", "name": "web"},
            "summary": "deployment/web: 0 of 1 replicas are ready; 1 is not ready: capacity",
            "generation": {"value": 1, "source": "Deployment shop/web: metadata.generation"},
            "rollbackObserved": {
                "value": None,
                "source": "no PolicyRollout of this workload was rolled back",
            },
            "pendingReplicas": {"value": ["web-7f2-0"], "source": "pods of shop/web at revision 105"},
            "lastReason": {"value": "capacity", "source": "decision ca8c5467-4 of scheduler"},
            "cacheRevision": {"Node": {"value": 76, "source": "decision ca8c5467-4 of scheduler"}},
            "latestRevision": {"Node": {"value": 73, "source": "Node node-2: metadata.resourceVersion"}},
            "autoscalerReason": {
                "value": None,
                "source": "no HorizontalPodAutoscaler has this workload as its target",
            },
            "repairCondition": {
                "value": {"type": "RepairComplete", "status": "True"},
                "source": "condition RepairComplete",
            },
            "serviceLevels": {},
            "activeOverrides": [],
            "gaps": [],
        },
    ),
    Document(
        "fathom top",
        ("top",),
        """The page of what is stuck, with its surroundings. [Top](top.md) shows it in a terminal.""",
        (NowView,),
        {
            "time": "2026-11-17T12:00:00Z",
            "server": "https://127.0.0.1:6443",
            "namespace": "shop",
            "lostSince": "",
            "lostWhy": "",
            "stuck": [
                {
                    "resource": "deployments.apps",
                    "namespace": "shop",
                    "name": "web",
                    "sentence": "Deployment shop/web is not ready with 0 of 3 replicas ready: …",
                    "command": "kubectl -n shop scale deployment/web --replicas=1",
                    "severity": "",
                }
            ],
            "zones": [
                {
                    "name": "a",
                    "nodes": [
                        {
                            "name": "node-1",
                            "state": "Ready",
                            "cpuPercent": 20,
                            "memoryPercent": 1,
                            "pods": 1,
                            "held": "",
                        }
                    ],
                }
            ],
            "leaders": [{"lease": "scheduler", "holder": "scheduler_21e96cab", "epoch": 1, "state": "leads"}],
            "brake": {"engaged": False, "holds": False, "zones": [], "nodes": [], "wrong": ""},
            "breakers": [{"component": "scheduler", "process": "deciders-1a2b3c4d", "state": "closed"}],
            "signals": [],
            "overrides": [],
            "fights": [],
            "workloads": [],
            "notes": {},
        },
    ),
    Document(
        "fathom top, of one workload",
        (),
        """`fathom top KIND/NAME -o json`: the page of one object.""",
        (WorkloadView,),
        {
            "time": "2026-11-17T12:00:00Z",
            "kind": "deployment",
            "namespace": "shop",
            "name": "web",
            "lostSince": "",
            "lostWhy": "",
            "asWanted": True,
            "why": ["Deployment shop/web has all 3 replicas ready"],
            "helps": "",
            "commands": ["fathom why deployment/web -n shop -o wide"],
            "current": None,
            "previous": None,
            "pods": [],
            "history": [],
            "timeline": [],
            "notes": {},
        },
    ),
    Document(
        "fathom timeline",
        ("timeline",),
        "With `-w`, one document a line for what is new. [Timelines](timelines.md#json) says more.",
        (Timeline,),
        {
            "subject": {"resource": "deployments.apps", "namespace": "shop", "name": "web"},
            "generation": 2,
            "entries": [
                {
                    "id": "write:79:replicasets.apps/shop/web-7f2",
                    "time": "2026-11-17T12:23:29.180000Z",
                    "source": "audit",
                    "actor": "deployments",
                    "text": "creates replicaset web-7f2",
                    "revision": 79,
                }
            ],
            "edges": [
                {
                    "cause": "decision:1d63",
                    "effect": "write:79:replicasets.apps/shop/web-7f2",
                    "kind": "wrote",
                }
            ],
            "gaps": [],
            "time": "2026-11-17T12:24:00.000000Z",
        },
    ),
    Document(
        "fathom coupling",
        ("coupling",),
        "Who can change the inputs of a decision. [Coupling](coupling.md#json) says more.",
        (Coupling,),
        {
            "subject": "Deployment shop/web spec.replicas",
            "summary": "Deployment shop/web spec.replicas: written by alice (kubectl)",
            "silent": ["controllers/autoscaling"],
            "inputs": [
                {
                    "reader": "controllers/deployments",
                    "kind": "Deployment",
                    "fields": ["spec.replicas"],
                    "source": "cache",
                    "calls": True,
                    "writers": [{"actor": "controllers/autoscaling", "fields": ["spec.replicas"]}],
                }
            ],
            "links": [],
            "observed": [],
        },
    ),
    Document(
        "fathom decisions",
        ("decisions",),
        "A list, oldest first. [The scheduler](scheduling.md) says what a decision has.",
        (KeptDecision,),
        {
            "decision": {
                "id": "c418d39e-07b7-4261-88ed-e0e65c38b75b",
                "time_ns": 1794921105193686505,
                "controller": "deployment-progress",
                "subject": {"resource": "deployments.apps", "namespace": "shop", "name": "web"},
                "verdict": "status",
                "cause": {"kind": "timer", "detail": "it was written within the last second"},
                "seen": {"Deployment": {"revision": 102, "age_ms": 595}},
                "actions": ["status WorkloadProgress shop/deployment-web"],
            },
            "outcomes": [
                {
                    "id": "c418d39e-07b7-4261-88ed-e0e65c38b75b",
                    "time_ns": 1794921105201956306,
                    "result": "committed",
                    "revision": 103,
                }
            ],
        },
    ),
    Document(
        "fathom override preview",
        ("override preview",),
        "Both futures of the cluster, with the override and without. [Overrides](overrides.md) says more.",
        (Preview,),
    ),
    Document(
        "fathom page sessions",
        ("page sessions",),
        "An object with `sessions`: a list of sessions of [the web page](page.md).",
        (ShownSession,),
    ),
    Document(
        "fathom doctor",
        ("doctor",),
        "A list of findings.",
        (Finding,),
        {
            "check": "port",
            "state": "failure",
            "found": "127.0.0.1:6443 is in use",
            "advice": "stop the other server, or choose another with --port",
        },
    ),
    Document(
        "fathom attach",
        ("attach",),
        """A list of findings: what the server has, and what each lack costs. `state` is yes, no, or needed:
        without it `attach` ends. With `--print`, a List of the objects that would be installed.""",
        (AttachFinding,),
        {
            "check": "events",
            "state": "no",
            "found": "you may not list and watch them",
            "cost": "who scheduled a pod, and what kubelets say, is not known",
        },
    ),
    Document(
        "fathom record status",
        ("record status",),
        "A list of recorded processes, each with its runs.",
        (TapeSummary,),
        {
            "process": "scheduler",
            "recording": True,
            "stored_bytes": 16777216,
            "runs": [
                {
                    "run": 1,
                    "entry": "scheduler",
                    "incarnation": 1,
                    "since": "2026-11-17T12:26:53.992601Z",
                    "until": "2026-11-17T12:27:43.722554Z",
                    "stored_bytes": 16777216,
                    "fathom": "0.1.0",
                    "python": "3.11.7",
                }
            ],
        },
    ),
    Document(
        "fathom replay",
        ("replay",),
        """Of a single tape: a ReplayResult. Of an incident, or with `--continue`: `matched`,
        `tapes` (a list of ReplayedTape) and `continuation` (a Continuation, or `null`). With
        `--patch`: `patch`, `changes` (names) and `tapes`. Of the file of a simulated run:
        [simulation](simulation.md#json).""",
        (ReplayResult, ReplayedTape, Continuation),
    ),
    Document(
        "fathom get, apply, create, patch, label, annotate, taint, set, scale, override, repair, runbook",
        (
            "get",
            "apply",
            "create",
            "create configmap",
            "create namespace",
            "create secret",
            "patch",
            "label",
            "annotate",
            "taint",
            "set image",
            "set resources",
            "scale",
            "repair list",
            "runbook list",
            "runbook show",
            "runbook report",
            "override list",
            "override show",
            "override create",
            "override review",
        ),
        """Objects as the API has them: one object, or for several a `List` with `items`. `repair
        list` and `runbook list` print a plain JSON list of objects. [Fields of the
        kinds](kind-fields.md) has the fields of fathom's own.""",
    ),
    Document(
        "fathom runbook plan",
        ("runbook plan",),
        """`runbook` (`name`, `version`, `hash`); `ready`, whether it could begin now; `preconditions`, each
        with `name`, `value` (True, False or Unknown) and `message`; `steps`, each with `id` and what it
        `does`; `creates`, the objects that it would create; `previews`, what forks of the cluster did, each
        as `fathom override preview` prints it.""",
    ),
    Document(
        "fathom version, demo requests",
        ("version", "demo requests"),
        """`version`: `clientVersion` with `major`, `minor`, `gitVersion`, `pythonVersion` and `platform`.
        `demo requests`: `service`, `requests` and how many of them were `answered`.""",
    ),
    Document(
        "fathom store",
        ("store backup", "store restore", "store verify"),
        """What is in the store, or in the backup: the fields below, and `sound`, whether there are no
        `problems`. `store verify` exits with 1 if there are.""",
        (Verified,),
    ),
    Document(
        "fathom store migrate",
        ("store migrate",),
        "What was copied, and the revision of the target.",
        (Migrated,),
    ),
    Document(
        "fathom sim",
        ("sim list", "sim run", "sim explore", "sim check-determinism", "sim shrink", "sim zoo"),
        """`sim list` prints a list of `name` and `about`. The documents of the others are in
        [simulation](simulation.md#json), field by field; a test compares them.""",
    ),
    Document(
        "fathom chaos",
        ("chaos",),
        """What `fathom chaos -o json` prints, `--report FILE` writes and `--replay FILE` reads. `failure` is
        null where everything held; its `schedule` has the faults, in the words of
        [the simulator](simulation.md#faults), and its `timeline` the lines of the report.""",
        (ChaosReport,),
    ),
    Document(
        "fathom bench",
        (
            "bench api",
            "bench watch",
            "bench record",
            "bench cache",
            "bench sim",
            "bench fork",
            "bench cluster",
            "bench schedule",
            "bench why",
        ),
        """Each prints what it measured, with the load (`parameters`) and the machine.
        [Benchmarks](benchmarks.md) says what is measured, and how.""",
        (
            ApiResult,
            WatchResult,
            ScheduleResult,
            DecideResult,
            ScaleResult,
            RecordingCost,
            RecordResult,
            CacheResult,
            KopfComparison,
            ClusterResult,
            WhyResult,
        ),
    ),
)
