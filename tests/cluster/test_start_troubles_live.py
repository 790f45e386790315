"""Pods that have a node and are not ready, as real processes, each with something else that is wrong: the
first line names the cause, and after the change that it proposes the pod is ready."""

from __future__ import annotations

import json
import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, Obj
from tests.cluster.programs import SLEEP, container, pod
from tests.cluster.troubles import READY_S, Ask, Step, Trouble, asking, solve, table

HUNGRY = "import time; x = bytearray(100 << 20); time.sleep(1000)"
QUICKLY = {"periodSeconds": 1, "failureThreshold": 1}
# A directory that the containers of a pod share: the first one leaves a file there when it has started.
SCRATCH, AT_SCRATCH = {"name": "scratch", "emptyDir": {}}, {"name": "scratch", "mountPath": "/scratch"}
STARTS = ("sh", "-c", "touch /scratch/up; exec sleep 1000")
STARTED = {"exec": {"command": ["test", "-e", "/scratch/up"]}, **QUICKLY}


class Place:
    """A namespace of one trouble, and what is drawn for it."""

    def __init__(self, kubectl: Kubectl, rng: random.Random) -> None:
        self.kubectl, self.rng = kubectl, rng
        self.word = f"w{rng.randrange(10_000)}"
        self.background: list[subprocess.Popen[bytes]] = []
        # A port of this machine that answers only once `answer` is called: what a probe asks.
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def probe(self, **more: Any) -> Obj:
        return {"tcpSocket": {"host": "127.0.0.1", "port": self.port}, **QUICKLY, **more}

    def answer(self) -> None:
        self.listener.listen()

    def create(self, *objs: Obj) -> None:
        self.kubectl.create(*objs)

    def replace(self, obj: Obj) -> Callable[[], object]:
        """What people do who correct a program: the pod is made again."""
        return lambda: self.kubectl.ok("replace --force -f -", stdin=yaml.safe_dump(obj))

    def event_of_an_older_failure(self, reason: str, message: str) -> None:
        """An Event about a pod of this name that is long gone."""
        involved = {
            "kind": "Pod", "namespace": self.kubectl.namespace, "name": "web", "uid": "gone",
            "fieldPath": "spec.containers{main}",
        }  # fmt: skip
        self.create(
            {
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"web.{self.word}"},
                "involvedObject": involved, "reason": reason, "message": message, "type": "Warning",
                "lastTimestamp": "2020-01-01T00:00:00Z",
            }
        )  # fmt: skip


def beside(main: Obj, *volumes: Obj) -> Obj:
    """A pod whose second container is ready only once the first one has started: it is not ready either."""
    both = pod("web", volumes=[SCRATCH, *volumes])
    probed = container(*SLEEP, readinessProbe=STARTED, volumeMounts=[AT_SCRATCH])
    mounts = [AT_SCRATCH, *main.pop("volumeMounts", ())]
    both["spec"]["containers"] = [{**main, "volumeMounts": mounts}, {**probed, "name": "side"}]
    return both


def of_key(variable: str, kind: str, name: str, key: str) -> Obj:
    return {"name": variable, "valueFrom": {f"{kind}KeyRef": {"name": name, "key": key}}}


def probe(script: str, **more: Any) -> Obj:
    return {"exec": {"command": ["sh", "-c", script]}, **QUICKLY, **more}


# The troubles.


def command(place: Place) -> Trouble:
    """Decoy: the other container is not ready."""
    place.create(beside(container(place.word)))
    says = (
        f"the command '{place.word}' of container main cannot be started",
        "correct the command of container",
    )
    typed = {'["PROGRAM"]': json.dumps(STARTS)}
    return Trouble(steps=(Step(says=says, never=("probe", "side"), fill=typed),))


def config_keys(place: Place) -> Trouble:
    """Decoy: the other container is not ready. The pod wants two keys of a ConfigMap that does not exist."""
    env = [of_key(name, "configMap", place.word, name) for name in ("LEVEL", "MODE")]
    place.create(beside(container(*STARTS, env=env)))
    says = (f"needs keys LEVEL and MODE of ConfigMap {place.word}, which does not exist", "create ConfigMap")
    return Trouble(steps=(Step(says=says, never=("probe", "side"), fill={"VALUE": "3"}),))


def secret_key(place: Place) -> Trouble:
    """Decoy: the ConfigMap that it may do without does not exist either."""
    place.kubectl.ok(f"create secret generic {place.word} --from-literal=USER=me")
    optional = of_key("LEVEL", "configMap", "settings", "LEVEL")
    optional["valueFrom"]["configMapKeyRef"]["optional"] = True
    env = [
        optional,
        of_key("USER", "secret", place.word, "USER"),
        of_key("TOKEN", "secret", place.word, "TOKEN"),
    ]
    place.create(pod("web", of={"env": env}))
    says = (
        f"needs key TOKEN of Secret {place.word}, which has no such key",
        f"add key TOKEN to Secret {place.word}",
    )
    return Trouble(steps=(Step(says=says, never=("settings",), fill={"VALUE": "t"}),))


def configmap_of_a_volume(place: Place) -> Trouble:
    """Decoy: the other container is not ready."""
    volume = {"name": "files", "configMap": {"name": place.word, "items": [{"key": "conf", "path": "conf"}]}}
    mounts = [{"name": "files", "mountPath": "/files"}]
    place.create(beside(container(*STARTS, volumeMounts=mounts), volume))
    says = (f"needs key conf of ConfigMap {place.word}, which does not exist",)
    return Trouble(steps=(Step(says=says, never=("probe",), fill={"VALUE": "x"}),))


def image(place: Place) -> Trouble:
    """Decoy: an Event of a pod that had the name before."""
    place.event_of_an_older_failure("Unhealthy", "Readiness probe failed: refused")
    place.create(pod("web", of={"image": f"{place.word}:1", "command": None}))
    says = (
        f"image '{place.word}:1' of container main cannot be pulled",
        "correct the image of container main",
    )
    return Trouble(steps=(Step(says=says, never=("probe",), fill={"IMAGE": "sleeper:1"}),))


def image_beside_a_sidecar(place: Place) -> Trouble:
    """Decoy: a sidecar that has started and is not ready before the main container has."""
    shared = {"volumeMounts": [AT_SCRATCH]}
    sidecar = {**container(*SLEEP, restartPolicy="Always", readinessProbe=STARTED, **shared), "name": "side"}
    main = {"image": f"{place.word}:1", "command": None, **shared}
    place.create(pod("web", of=main, initContainers=[sidecar], volumes=[SCRATCH]))
    says = (f"image '{place.word}:1' of container main cannot be pulled",)
    return Trouble(steps=(Step(says=says, never=("probe",), fill={"IMAGE": "starter:1"}),))


def readiness(place: Place) -> Trouble:
    """Decoy: it crashed at its first start."""
    script = "test -e /scratch/again || { touch /scratch/again; exit 1; }; exec sleep 1000"
    of = {"volumeMounts": [AT_SCRATCH], "readinessProbe": place.probe()}
    place.create(pod("web", "sh", "-c", script, of=of, volumes=[SCRATCH]))
    says = (
        "the readiness probe of container main fails",
        f"make container main answer TCP port {place.port}",
    )
    return Trouble(steps=(Step(says=says, never=("ends with code",), act=place.answer),))


def liveness(place: Place) -> Trouble:
    """Decoy: its readiness probe has not passed either."""
    probes = {"livenessProbe": probe("echo stuck; exit 1"), "readinessProbe": place.probe()}
    place.create(pod("web", of=probes))
    says = ("the liveness probe of container main fails, so it is restarted", "correct its liveness probe")
    return Trouble(steps=(Step(says=says, never=("readiness",), act=place.replace(pod("web"))),))


def startup(place: Place) -> Trouble:
    """Decoys: readiness and liveness are not probed before it has started."""
    slow = probe("echo too early; exit 1", failureThreshold=30)
    probes = {"startupProbe": slow, "livenessProbe": probe("exit 1"), "readinessProbe": probe("exit 1")}
    place.create(pod("web", of=probes))
    says = ("the startup probe of container main fails: too early", "correct its startup probe")
    step = Step(says=says, never=("readiness", "liveness"), act=place.replace(pod("web")))
    return Trouble(steps=(step,))


def crash_loop(place: Place) -> Trouble:
    """Decoy: the other container is not ready."""
    code = place.rng.randrange(2, 100)
    place.create(beside(container("sh", "-c", f"echo no table {place.word}; exit {code}")))
    says = (f"container main ends with code {code}", "read its log and correct the program")
    step = Step(says=says, never=("probe", "side"), act=place.replace(beside(container(*STARTS))))
    return Trouble(steps=(step,))


def memory(place: Place) -> Trouble:
    """Decoy: an Event of a pod that had the name before."""
    limit = place.rng.choice(("48Mi", "64Mi"))
    limits = {"resources": {"limits": {"memory": limit}}}
    place.event_of_an_older_failure("Unhealthy", "Liveness probe failed: refused")
    place.create(pod("web", "python3", "-c", HUNGRY, of=limits))
    doubled = f"{2 * int(limit[:-2])}Mi"
    says = ("memory peak", f"its limit is {limit}", f"raise the memory limit of container main above {limit}")
    return Trouble(steps=(Step(says=says, never=("probe",), fill={doubled: "256Mi"}),))


def init_container(place: Place) -> Trouble:
    """Decoy: the main container's image does not exist; that comes after."""
    code = place.rng.randrange(2, 100)
    setup = {**container("sh", "-c", f"exit {code}"), "name": "setup"}
    main = {"image": f"{place.word}:1", "command": None}
    place.create(pod("web", initContainers=[setup], of=main))
    good = pod("web", initContainers=[{**setup, "command": ["true"]}], of=main)
    first = Step(says=(f"container setup ends with code {code}",), never=("image",), act=place.replace(good))
    then = Step(says=(f"image '{place.word}:1' of container main",), fill={"IMAGE": "sleeper:1"})
    return Trouble(steps=(first, then))


def readiness_gate(place: Place) -> Trouble:
    """Decoy: an Event of a pod that had the name before."""
    place.event_of_an_older_failure("BackOff", "Back-off restarting failed container main")
    gate = f"example.com/{place.word}"
    place.create(pod("web", readinessGates=[{"conditionType": gate}]))
    says = (f"readiness gate {gate} is not true", f"set condition {gate} of the pod to True")
    return Trouble(steps=(Step(says=says, never=("Back-off",)),))


def deadline(place: Place) -> Trouble:
    """Decoy: its readiness probe never passed."""
    seconds = place.rng.randrange(2, 4)
    of = {"readinessProbe": place.probe()}
    place.create(pod("web", of=of, activeDeadlineSeconds=seconds, restartPolicy="Never"))
    says = ("has failed: DeadlineExceeded", f"raise activeDeadlineSeconds above {seconds}")
    typed = {f'"value":{2 * seconds}': '"value":600'}
    return Trouble(steps=(Step(says=says, never=("probe",), fill=typed, act=place.answer),))


TROUBLES: dict[str, Callable[[Place], Trouble]] = {
    make.__name__.replace("_", " "): make
    for make in (
        command, config_keys, secret_key, configmap_of_a_volume, image, image_beside_a_sidecar, readiness,
        liveness, startup, crash_loop, memory, init_container, readiness_gate, deadline,
    )
}  # fmt: skip


@pytest.fixture
def place(kubectl: Kubectl, record_property: Callable[[str, Any], None]) -> Iterator[Place]:
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    drawn = Place(kubectl, random.Random(seed))
    yield drawn
    drawn.listener.close()


@pytest.fixture
def ask(cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking(cluster.data / "kubeconfig", kubectl.namespace, capsys)


DEEP = ("configmap of a volume", "deadline", "image beside a sidecar", "secret key", "startup")


@pytest.mark.parametrize("name", table(TROUBLES, deep=DEEP))
def test_the_first_line_names_the_cause_and_after_the_change_the_pod_is_ready(
    name: str, place: Place, ask: Ask, cluster: Cluster, record_property: Callable[[str, Any], None]
) -> None:
    trouble = TROUBLES[name](place)
    record_property(READY_S, (name, solve(trouble, ask, place, cluster.told)))
