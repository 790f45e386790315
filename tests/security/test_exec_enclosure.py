"""Commands of probes and hooks run in the enclosure of their container: they reach what its program reaches,
and nothing else."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from kubernetes.stream import stream
from tests.agent.living import Cluster, enclosed, is_root, lives, pid_of, status_of
from tests.security.pod_hosts import ORDINARY, SECRET, pods_run_by, root_of

from fathom.model.objects import Obj, lookup

pytestmark = enclosed

# What the kernel says of the process that asks; the shell itself, because `cat` would be another one.
FACTS = (
    "while read -r name rest; do case $name in Uid:|Gid:|Groups:|NoNewPrivs:|Cap*|Seccomp*) echo $name $rest"
    ";; esac; done < /proc/self/status; for one in mnt user uts net pid ipc cgroup; do"
    " readlink /proc/self/ns/$one; done; cat /proc/self/cgroup; ulimit -a; umask; pwd; export"
)


def landlock_version() -> int:
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)))


keeps_signals_in = pytest.mark.skipif(
    landlock_version() < 6, reason="the kernel's Landlock does not keep signals in"
)


@pytest.fixture(scope="module", params=["root", "ordinary"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if not is_root():
        pytest.skip("only root can run agents as somebody else")
    with pods_run_by(None if request.param == "root" else ORDINARY) as made:
        made.named_ids = request.param == "root"  # type: ignore[attr-defined]  # for the tests here
        yield made


def command(script: str) -> Obj:
    return {"exec": {"command": ["sh", "-c", script]}}


def room(cluster: Cluster, pod: Obj, name: str = "room") -> Path:
    return cluster.server.data / f"agents/n1/pods/{pod['metadata']['uid']}/volumes/{name}"


ROOM: Obj = {"volumeMounts": [{"name": "room", "mountPath": "/room"}]}
VOLUMES = [{"name": "room", "emptyDir": {}}]


@pytest.mark.parametrize("ids", [{}, {"runAsUser": 1000, "supplementalGroups": [42]}], ids=["own", "named"])
def test_a_probe_and_a_hook_are_what_their_program_is(cluster: Cluster, ids: Obj) -> None:
    if ids and not cluster.named_ids:  # type: ignore[attr-defined]  # see above
        pytest.skip("without root a pod cannot name ids")
    name = f"facts-{len(ids)}"
    main: Obj = {
        "readinessProbe": {
            **command(f"({FACTS}) > /room/probe.new; mv /room/probe.new /room/probe"), "periodSeconds": 1
        },
        "lifecycle": {
            "postStart": command(f"({FACTS}) > /room/post"), "preStop": command(f"({FACTS}) > /room/pre")
        },
        "resources": {"limits": {"memory": "256Mi", "cpu": "500m"}},
        "env": [{"name": "WORD", "value": "x y"}],
        "workingDir": "/room", **ROOM,
    }  # fmt: skip
    ending = "cp /room/pre /room/new; mv /room/new /room/copy; sleep 5; exit"
    program = f"({FACTS}) > /room/main; trap '{ending}' TERM; sleep 300 & wait"
    cluster.run(
        name, "sh", "-c", program, container=main, volumes=VOLUMES, terminationGracePeriodSeconds=20,
        **({"securityContext": ids} if ids else {}),
    )  # fmt: skip
    pod = cluster.until_ready(name)
    files = room(cluster, pod)
    said = {one: facts(files / one) for one in ("main", "post", "probe")}
    assert said["main"] == said["post"] == said["probe"]
    assert "NoNewPrivs: 1" in said["main"]
    cluster.delete(name)
    cluster.until(name, lambda pod: not pod or (files / "copy").exists())
    assert facts(files / "copy") == said["main"]


def executed(cluster: Cluster, name: str, script: str, **options: Any) -> str:
    """What a command says that a client of the API runs in the pod, as `kubectl exec` does."""
    api = kubernetes.client.CoreV1Api(
        kubernetes.config.new_client_from_config(str(cluster.server.data / "kubeconfig"))
    )
    said = stream(
        api.connect_get_namespaced_pod_exec, name, "default", command=["sh", "-c", script], container="main",
        **{"stdin": False, "stdout": True, "stderr": True, "tty": False, **options},
    )  # fmt: skip
    return str(said).replace("\r\n", "\n")


def test_a_clients_command_is_what_its_program_is(cluster: Cluster) -> None:
    main: Obj = {"resources": {"limits": {"memory": "256Mi", "cpu": "500m"}}, "workingDir": "/room", **ROOM}
    program = f"({FACTS}) > /room/new; mv /room/new /room/main; exec sleep 300"
    cluster.run("client", "sh", "-c", program, container=main, volumes=VOLUMES)
    pod = cluster.until_ready("client")
    files = room(cluster, pod)
    cluster.until("client", lambda pod: (files / "main").exists())
    (said := files.parent / "said").write_text(executed(cluster, "client", f"({FACTS})"))
    assert facts(said) == facts(files / "main")
    in_terminal = executed(cluster, "client", f"({FACTS}); tty; ls -l $(tty)", tty=True, stderr=False)
    said.write_text("\n".join(line for line in in_terminal.splitlines() if "TERM=" not in line))
    assert facts(said)[: len(facts(files / "main"))] == facts(files / "main")
    terminal = in_terminal.splitlines()[-2]
    assert terminal.startswith("/dev/pts/")
    assert executed(cluster, "client", "echo hi > /dev/stdout; echo hi > /dev/stderr").split() == ["hi", "hi"]


def test_a_clients_command_reaches_no_process_or_file_outside(cluster: Cluster) -> None:
    data, agent = cluster.server.data, cluster.agent.process
    assert agent is not None
    cluster.run("confined", "sleep", "300")
    cluster.until_ready("confined")
    wanted = [data / "pki/ca.key", data / "kubeconfig", *data.glob("pki/*.key")]
    assert all(one.exists() for one in wanted)
    paths = " ".join(f"{root}{one}" for one in wanted for root in ("", root_of(agent.pid)))
    for terminal in (False, True):
        said = executed(
            cluster, "confined", f"cat {paths} 2>/dev/null; echo over", tty=terminal, stderr=False
        )
        assert said == "over\n"
    if landlock_version() >= 6:
        assert "reached" not in executed(cluster, "confined", f"kill -0 {agent.pid} && echo reached")


def facts(file: Path) -> list[str]:
    """But what a shell says of itself: which is its parent, what it ran before."""
    return [
        line
        for line in file.read_text().splitlines()
        if not line.startswith(("export OLDPWD", "export SHLVL", "export _", "declare -x"))
    ]


@keeps_signals_in
def test_a_probe_reaches_no_process_outside_its_container(cluster: Cluster) -> None:
    cluster.run("other", "sleep", "300", container={"env": [{"name": "PIN", "value": SECRET}]})
    pid = pid_of(cluster.until_ready("other"))
    agent = cluster.agent.process
    assert agent is not None
    tries = " ".join(
        f"kill -0 {one} && echo reached; cat /proc/{one}/environ; ls {root_of(one)}/ && echo saw;"
        for one in (pid, agent.pid)
    )
    script = f"({tries}) > /room/said.new 2>&1; mv /room/said.new /room/said"
    beside = {"name": "beside", "image": "x", "command": ["sh", "-c", "echo $$$$ > /room/beside; sleep 300"]}
    shared = f"until [ -s /room/beside ]; do sleep 0.1; done; kill -0 $(cat /room/beside) && echo {SECRET}"
    probe = {**command(f"{script}; ({shared}) >> /room/said 2>&1; true"), "periodSeconds": 1,
             "timeoutSeconds": 10}  # fmt: skip
    cluster.create(
        "nosy",
        [{"name": "main", "image": "x", "command": ["sleep", "300"], "readinessProbe": probe, **ROOM},
         {**beside, **ROOM}],
        volumes=VOLUMES,
    )  # fmt: skip
    pod = cluster.until_ready("nosy")
    said = (room(cluster, pod) / "said").read_text()
    assert SECRET not in said
    assert not {"reached", "saw"} & set(said.split())
    assert lives(pid)


@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe", "startupProbe", "postStart"])
def test_no_command_reads_the_servers_files_or_another_pods(cluster: Cluster, kind: str) -> None:
    data = cluster.server.data
    cluster.run("keeps", "sh", "-c", f"umask 077; echo '{SECRET}' > /room/file; exec sleep 300",
                volumes=VOLUMES, container=ROOM)  # fmt: skip
    victim = cluster.until_ready("keeps")
    agent = cluster.agent.process
    assert agent is not None
    wanted = [data / "pki/ca.key", data / "kubeconfig", room(cluster, victim) / "file",
              room(cluster, victim).parent.parent / "pod.json"]  # fmt: skip
    wanted += [*data.glob("pki/*.key"), *data.glob("*.csv"), *data.glob("credentials/*")]
    assert all(one.exists() for one in wanted)
    paths = " ".join(f"{root}{one}" for one in wanted for root in ("", root_of(agent.pid)))
    script = f"cat {paths} > /room/said 2>/room/errors; touch /room/done"
    action = command(script) if kind == "postStart" else {**command(script), "periodSeconds": 1}
    fields = {"lifecycle": {kind: action}} if kind == "postStart" else {kind: action}
    name = f"reads-{kind.lower()}"
    cluster.run(name, "sleep", "300", volumes=VOLUMES, container={**fields, **ROOM})
    pod = cluster.until_ready(name)
    cluster.until(name, lambda pod: (room(cluster, pod) / "done").exists())
    assert (room(cluster, pod) / "said").read_text() == ""
    cluster.delete("keeps")
    cluster.until_gone("keeps")


def test_a_hook_may_signal_its_own_program(cluster: Cluster) -> None:
    program = "trap 'echo told > /room/told' USR1; echo $$$$ > /room/pid; while :; do sleep 0.1; done"
    hook = {"lifecycle": {"preStop": command("kill -USR1 $(cat /room/pid); sleep 2")}}
    cluster.run("quits", "sh", "-c", program, volumes=VOLUMES, container={**hook, **ROOM},
                terminationGracePeriodSeconds=20)  # fmt: skip
    pod = cluster.until_ready("quits")
    told = room(cluster, pod) / "told"
    cluster.until("quits", lambda pod: (room(cluster, pod) / "pid").exists())
    cluster.delete("quits")
    cluster.until("quits", lambda pod: told.exists() or not pod)
    assert told.exists()
    cluster.until_gone("quits")


def test_what_a_command_says_and_how_it_ends_are_told(cluster: Cluster) -> None:
    probe = {**command("echo out; echo err >&2; exit 3"), "periodSeconds": 1}
    cluster.run("tells", "sleep", "300", container={"readinessProbe": probe})

    def messages(pod: Obj) -> list[str]:
        return [one.get("message", "") for one in lookup(pod, "status", "conditions") or ()]

    cluster.until("tells", lambda pod: any("probe failed: out\nerr" in one for one in messages(pod)))
    missing = {"exec": {"command": ["no-such-program"]}, "periodSeconds": 1}
    cluster.run("lacks", "sleep", "300", container={"readinessProbe": missing})
    cluster.until("lacks", lambda pod: any("executable file not found" in one for one in messages(pod)))


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_began(cluster: Cluster) -> None:
    script = "echo $$$$ >> /room/pids; (sleep 277 & wait) & sleep 277"
    probe = {**command(script), "periodSeconds": 2, "timeoutSeconds": 1}
    cluster.run("slow", "sleep", "300", volumes=VOLUMES, container={"readinessProbe": probe, **ROOM})

    def tries(pod: Obj) -> int:
        file = room(cluster, pod) / "pids"
        return len(file.read_text().split()) if file.exists() else 0

    cluster.until("slow", lambda pod: tries(pod) >= 3)
    main = pid_of(cluster.pod("slow"))
    view = os.stat(f"/proc/{main}/ns/mnt").st_ino
    cluster.until("slow", lambda pod: len(sleepers(view)) <= 2)  # Those of the try that is under way.
    assert status_of(cluster.pod("slow"))["restartCount"] == 0


def sleepers(view: int) -> list[int]:
    found = []
    for one in Path("/proc").iterdir():
        try:
            if one.name.isdigit() and (one / "ns/mnt").stat().st_ino == view:
                found += [int(one.name)] * (b"277" in (one / "cmdline").read_bytes().split(b"\0"))
        except OSError:
            continue
    return found
