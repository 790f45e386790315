"""Pods as real processes: a server, an agent, and programs."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import urllib.request

import pytest
from tests.agent.living import (
    NODE,
    PODS,
    AgentProcess,
    Cluster,
    condition,
    enclosed,
    eventually,
    followed,
    is_root,
    lives,
    pid_of,
    processes,
    reason,
    status_of,
    text,
)
from tests.clients.running import Server

from fathom.agent.host.limits import find_means
from fathom.agent.host.sockets import parent_of
from fathom.controllers.pod_states import seconds
from fathom.model.objects import lookup

pytestmark = pytest.mark.live

SERVE = ("python3", "-u", "-m", "http.server", "--bind", "$(POD_IP)", "8080")
HTTP = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}


def fetched(ip: str, path: str = "/", port: int = 8080) -> str:
    with urllib.request.urlopen(f"http://{ip}:{port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def test_a_server_becomes_ready_at_its_own_address_says_what_it_does_and_ends(cluster: Cluster) -> None:
    cluster.run("web", *SERVE, container={"readinessProbe": HTTP, "livenessProbe": HTTP})
    pod = cluster.until_ready("web")
    ip = pod["status"]["podIP"]
    assert ip.startswith("127.")
    assert "Directory listing" in fetched(ip)
    assert '"GET / HTTP/1.1" 200' in cluster.logs("web")
    pid = pid_of(pod)
    cluster.delete("web")
    cluster.until_gone("web")
    assert not lives(pid)


def test_two_replicas_share_a_port_number(cluster: Cluster) -> None:
    for name in ("one", "two"):
        cluster.run(name, *SERVE, container={"readinessProbe": HTTP})
    ips = {cluster.until_ready(name)["status"]["podIP"] for name in ("one", "two")}
    assert len(ips) == 2


def test_logs_can_be_followed_until_the_program_ends(cluster: Cluster, server: Server) -> None:
    program = "import time\nfor n in range(4): print('line', n, flush=True); time.sleep(0.4)"
    cluster.run("counts", "python3", "-c", program, restartPolicy="Never")
    cluster.until("counts", lambda pod: status_of(pod).get("containerID"))
    assert text(server, f"{PODS}/counts/log?follow=true") == "line 0\nline 1\nline 2\nline 3\n"
    assert cluster.until_ended("counts")["status"]["phase"] == "Succeeded"
    assert cluster.logs("counts", "tailLines=2") == "line 2\nline 3\n"
    assert cluster.logs("counts", "limitBytes=8") == "line 0\nl"
    stamped = cluster.logs("counts", "timestamps=true&tailLines=1")
    assert stamped.endswith(" line 3\n")
    assert cluster.logs("counts", f"sinceTime={stamped.split()[0]}") == "line 3\n"
    assert "must be greater than or equal to 1" in cluster.logs("counts", "sinceSeconds=-1")


def test_kubectl_reads_logs(cluster: Cluster, server: Server, kubectl: str) -> None:
    cluster.run("speaks", "sh", "-c", "echo out; echo err >&2; sleep 60")
    cluster.until_ready("speaks")
    words = [kubectl, "--kubeconfig", str(server.kubeconfig), "logs", "speaks"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout
    assert sorted(said.splitlines()) == ["err", "out"]
    following = subprocess.Popen([*words, "-f", "--timestamps"], stdout=subprocess.PIPE, text=True)
    assert following.stdout is not None
    begun = following.stdout.readline()  # It is there: only now may what it follows end.
    cluster.delete("speaks")
    followed = following.stdout.read()
    assert following.wait(20) == 0
    assert sorted(line.partition(" ")[2] for line in [begun.rstrip(), *followed.splitlines()]) == [
        "err",
        "out",
    ]


def test_an_agent_that_was_killed_finds_everything_as_it_was(cluster: Cluster, agent: AgentProcess) -> None:
    cluster.run("stays", *SERVE, container={"readinessProbe": HTTP})
    before = cluster.until_ready("stays")
    agent.end(signal.SIGKILL)
    assert lives(pid_of(before))
    agent.start()
    cluster.run("later", "sleep", "300")
    cluster.until_ready("later")  # So it has looked at all that was there before.
    after = cluster.pod("stays")
    assert status_of(after) == status_of(before)
    assert condition(after, "Ready") == "True"
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]  # Nothing to say.
    assert processes(before["status"]["podIP"]) == [pid_of(before)]


def test_what_ended_and_what_was_deleted_meanwhile_is_settled_by_the_next_agent(
    cluster: Cluster, agent: AgentProcess
) -> None:
    cluster.run("ends", "sh", "-c", "sleep 2; exit 7", restartPolicy="Never")
    cluster.run("goes", "sleep", "300")
    ends, goes = cluster.until_ready("ends"), cluster.until_ready("goes")
    agent.end(signal.SIGKILL)
    cluster.delete("goes", gracePeriodSeconds=0)
    cluster.until_gone("goes")
    assert lives(pid_of(goes))
    eventually(lambda: not lives(pid_of(ends)))
    agent.start()
    ended = cluster.until_ended("ends")
    assert lookup(status_of(ended), "state", "terminated", "exitCode") == 7
    eventually(lambda: not lives(pid_of(goes)))


def test_a_process_that_is_killed_is_started_again_and_counted(cluster: Cluster) -> None:
    cluster.run("dies", "sleep", "300")
    first = cluster.until_ready("dies")
    os.kill(pid_of(first), signal.SIGKILL)
    second = cluster.until(
        "dies", lambda pod: status_of(pod).get("restartCount") == 1 and status_of(pod)["ready"]
    )
    last = status_of(second)["lastState"]["terminated"]
    assert (last["exitCode"], last["signal"], last["reason"]) == (137, 9, "Error")
    assert pid_of(second) != pid_of(first)


@pytest.mark.parametrize(
    ("words", "phase", "code"),
    [
        (("true",), "Succeeded", 0),
        (("sh", "-c", "exit 42"), "Failed", 42),
        (("no-such-program",), "Failed", 127),
    ],
)
def test_exit_codes(cluster: Cluster, words: tuple[str, ...], phase: str, code: int) -> None:
    name = f"code-{code}"
    cluster.run(name, *words, restartPolicy="Never")
    pod = cluster.until_ended(name)
    assert (pod["status"]["phase"], status_of(pod)["state"]["terminated"]["exitCode"]) == (phase, code)


def test_a_program_that_does_not_listen_is_killed_when_its_grace_is_over(
    cluster: Cluster, server: Server
) -> None:
    cluster.run("deaf", "sh", "-c", "trap '' TERM; while true; do sleep 1; done")
    pod = cluster.until_ready("deaf")
    server.patch(f"{PODS}/deaf", {"metadata": {"finalizers": ["example.dev/held"]}})
    cluster.delete("deaf", gracePeriodSeconds=2)
    ended = cluster.until_ended("deaf")
    server.patch(f"{PODS}/deaf", {"metadata": {"finalizers": None}})
    cluster.until_gone("deaf")
    last = status_of(ended)["state"]["terminated"]
    assert (last["exitCode"], last["signal"]) == (137, 9)
    # A server writes down when the time of grace ends, in whole seconds; and clocks are set a little.
    grace_ended_s = seconds(ended["metadata"]["deletionTimestamp"])
    assert seconds(last["finishedAt"]) >= grace_ended_s - 1
    assert not lives(pid_of(pod))


def test_a_hook_runs_before_the_end(cluster: Cluster, server: Server) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo bye > bye; sleep 0.5"]}}}
    program = "echo begun; while [ ! -f bye ]; do sleep 0.1; done; echo hook came first; sleep 60"
    cluster.run(
        "hooked", "sh", "-c", program, container={"lifecycle": hook}, terminationGracePeriodSeconds=10
    )
    cluster.until_ready("hooked")
    with followed(server, "hooked") as log:
        assert log.readline() == b"begun\n"
        cluster.delete("hooked")
        assert log.read() == b"hook came first\n"
    cluster.until_gone("hooked")


@pytest.mark.skipif(os.getuid() != 0, reason="only root has rights to hand on")
def test_a_pod_binds_low_ports_and_has_no_other_right_of_roots(cluster: Cluster) -> None:
    program = (
        "import os, socket; one = socket.socket(); one.bind((os.environ['POD_IP'], 80)); one.listen();"
        "said = [line.split() for line in open('/proc/self/status')];"
        "print([rest[0].lstrip('0') for name, *rest in said if name in ('CapPrm:', 'CapEff:')])"
    )
    cluster.run("low", "python3", "-c", program, restartPolicy="Never")
    given_up = {"securityContext": {"capabilities": {"drop": ["ALL"]}}}
    cluster.run("shy", "python3", "-c", program, restartPolicy="Never", container=given_up)
    assert [cluster.until_ended(name)["status"]["phase"] for name in ("low", "shy")] == [
        "Succeeded",
        "Failed",
    ]
    assert cluster.logs("low") == "['400', '400']\n"
    assert cluster.logs("shy").endswith("PermissionError: [Errno 13] Permission denied\n")


@enclosed
def test_a_pods_host_has_its_name_and_its_address(cluster: Cluster) -> None:
    program = "import socket; name = socket.gethostname(); print(name, socket.gethostbyname(name))"
    probe = {"exec": {"command": ["sh", "-c", '[ "$(hostname)" = named ]']}, "periodSeconds": 1}
    cluster.run("named", "python3", "-c", f"{program}; import time; time.sleep(60)", container={
        "readinessProbe": probe, "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
    })  # fmt: skip
    ready = cluster.until_ready("named")
    eventually(lambda: cluster.logs("named"))  # The probe may pass before Python has begun.
    assert cluster.logs("named") == f"named {ready['status']['podIP']}\n"


@enclosed
def test_configuration_arrives_as_environment_and_files(cluster: Cluster, server: Server) -> None:
    core = "/api/v1/namespaces/default"
    server.request(
        "POST", f"{core}/configmaps", {"metadata": {"name": "conf"}, "data": {"colour": "red", "a": "1"}}
    )
    server.request("POST", f"{core}/secrets", {"metadata": {"name": "keys"}, "stringData": {"pin": "1234"}})
    env = [
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "colour"}}},
        {"name": "PIN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "pin"}}},
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "ALL", "value": "$(COLOUR)-$(PIN)-$$(PIN)-$(NOBODY)"},
    ]  # fmt: skip
    name = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    volumes = [
        {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "colour", "path": "deep/c"}]}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "me", "downwardAPI": {"items": [name]}},
        {"name": "room", "emptyDir": {}},
    ]  # fmt: skip
    mounts = [
        {"name": "conf", "mountPath": "/etc/app/conf"},
        {"name": "keys", "mountPath": "/keys", "readOnly": True},
        {"name": "me", "mountPath": "/var/run/me"}, {"name": "room", "mountPath": "/room"},
        {"name": "conf", "mountPath": "/colour", "subPath": "deep/c"},
    ]  # fmt: skip
    script = (
        "echo $ALL $WHERE $LIMIT $P_a $POD_IP;"
        "cat /etc/app/conf/deep/c /keys/pin /var/run/me/name /colour; echo;"
        "echo x > /room/x && cat /room/x; echo y > /keys/y || echo read-only; pwd"
    )
    cluster.run(
        "configured", "sh", "-c", script, restartPolicy="Never", volumes=volumes,
        container={"env": env, "envFrom": [{"prefix": "P_", "configMapRef": {"name": "conf"}}],
                   "volumeMounts": mounts, "resources": {"limits": {"memory": "64Mi"}}},
    )  # fmt: skip
    ip = cluster.until_ended("configured")["status"]["podIP"]
    said = [line for line in cluster.logs("configured").splitlines() if "cannot create" not in line]
    assert said == [
        f"red-1234-$(PIN)-$(NOBODY) n1 64 1 {ip}",
        "red1234configuredred",
        "x",
        "read-only",
        "/pod",
    ]


def test_what_is_missing_is_said_and_waited_for(cluster: Cluster, server: Server) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "a"}}}]
    cluster.run("waits", "sleep", "300", container={"env": env})
    pod = cluster.until("waits", lambda pod: lookup(status_of(pod), "state", "waiting", "message"))
    waiting = status_of(pod)["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": 'configmap "later" not found'}
    assert reason(pod, "Starting") == 'CreateContainerConfigError: main: configmap "later" not found'


def test_an_image_without_a_command_says_what_to_do(cluster: Cluster) -> None:
    cluster.create("nameless", [{"name": "main", "image": "nginx:1.27"}])
    pod = cluster.until("nameless", lambda pod: lookup(status_of(pod), "state", "waiting", "message"))
    assert status_of(pod)["state"]["waiting"]["reason"] == "ErrImageNeverPull"
    assert 'no local command for image "nginx:1.27"' in status_of(pod)["state"]["waiting"]["message"]


def test_a_program_that_binds_every_address_is_told_so(cluster: Cluster, server: Server) -> None:
    probe = {"tcpSocket": {"port": 18431}, "periodSeconds": 1}
    cluster.run("greedy", "python3", "-m", "http.server", "18431", container={"readinessProbe": probe})
    pod = cluster.until_ready("greedy")
    assert "every address" in reason(
        cluster.until("greedy", lambda p: "every" in reason(p, "Starting")), "Starting"
    )
    cluster.run("robbed", "sleep", "300", container={"readinessProbe": probe})
    robbed = cluster.until("robbed", lambda pod: "another process" in reason(pod, "Starting"))
    assert condition(robbed, "Ready") == "False"
    assert lives(pid_of(pod))


def test_a_probes_command_may_name_a_containers_variables(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["test", "-d", "$(PLACE)"]}, "periodSeconds": 1}
    env = [{"name": "PLACE", "value": "/usr"}]
    cluster.run("asks", "sleep", "300", container={"env": env, "readinessProbe": probe})
    cluster.until_ready("asks")


def test_a_liveness_probe_that_fails_restarts_the_container(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["test", "-f", "well"]}, "periodSeconds": 1, "failureThreshold": 2}
    program = "touch well; sleep 2; rm well; sleep 300"
    cluster.run("sick", "sh", "-c", program, container={"livenessProbe": probe})
    pod = cluster.until("sick", lambda pod: status_of(pod).get("restartCount") == 1)
    assert lookup(status_of(pod), "lastState", "terminated", "exitCode") in {137, 143}


@enclosed
def test_init_containers_go_before_and_sidecars_beside(cluster: Cluster) -> None:
    room = [{"name": "room", "mountPath": "/room"}]

    def one(name: str, script: str, **fields: object) -> dict[str, object]:
        return {"name": name, "image": "x", "command": ["sh", "-c", script], "volumeMounts": room, **fields}

    cluster.create(
        "ordered",
        [one("main", "cat /room/order; ls /room/side; sleep 1")],
        initContainers=[
            one("first", "echo first >> /room/order"),
            one("side", "touch /room/side; sleep 300", restartPolicy="Always"),
            one("second", "echo second >> /room/order"),
        ],
        volumes=[{"name": "room", "emptyDir": {}}],
        restartPolicy="Never",
    )
    pod = cluster.until_ended("ordered")
    assert pod["status"]["phase"] == "Succeeded"
    assert cluster.logs("ordered", "container=main") == "first\nsecond\n/room/side\n"
    assert lookup(status_of(pod, "side"), "state", "terminated") is not None


@enclosed
@pytest.mark.skipif(not is_root(), reason="without root a pod is hidden by other means")
def test_a_pod_cannot_read_the_servers_keys(cluster: Cluster, server: Server) -> None:
    key = server.data / "pki" / "ca.key"
    cluster.run("spy", "sh", "-c", f"cat {key}; ls -A {server.data}; id -u", restartPolicy="Never")
    cluster.until_ended("spy")
    said = cluster.logs("spy")
    assert "PRIVATE KEY" not in said
    assert int(cluster.logs("spy", "stream=Stdout").split()[-1]) >= 0x70000000


def test_metrics_are_served_for_pods_and_nodes(cluster: Cluster, server: Server) -> None:
    cluster.run(
        "busy", "sh", "-c", "while true; do :; done", container={"resources": {"limits": {"cpu": "200m"}}}
    )
    cluster.until_ready("busy")
    deadline_s = time.monotonic() + 45
    found: list[dict[str, object]] = []
    while not found and time.monotonic() < deadline_s:
        time.sleep(1)
        listed = server.request("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")["items"]
        found = [one for one in listed if one["metadata"]["name"] == "busy"]
    cpu = found[0]["containers"][0]["usage"]["cpu"]  # type: ignore[index]  # JSON
    assert 20_000_000 < int(cpu.removesuffix("n")) < 400_000_000  # Around its limit of a fifth.
    nodes = server.request("GET", "/apis/metrics.k8s.io/v1beta1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["n1"]


@enclosed
def test_the_end_of_the_log_is_the_message_of_who_left_none(cluster: Cluster) -> None:
    said = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    cluster.run("mute", "sh", "-c", "echo one; echo two; exit 1", container=said, restartPolicy="Never")
    cluster.run("spoke", "sh", "-c", "echo mine > /dev/termination-log; exit 1", restartPolicy="Never")
    for name, message in (("mute", "one\ntwo"), ("spoke", "mine\n")):
        assert status_of(cluster.until_ended(name))["state"]["terminated"]["message"] == message


def test_a_pods_life_takes_few_writes_and_a_finalizer_is_waited_for_in_silence(
    cluster: Cluster, server: Server
) -> None:
    held = {"finalizers": ["example.dev/held"]}
    spec = {
        "nodeName": NODE,
        "terminationGracePeriodSeconds": 1,
        "containers": [{**SLEEPS, "readinessProbe": HERE}],
    }
    server.request("POST", PODS, {"metadata": {"name": "held", **held}, "spec": spec})
    cluster.until_ready("held")
    cluster.delete("held")
    cluster.until_ended("held")
    cluster.run("beside", "sleep", "300")
    cluster.until_ready("beside")
    cluster.delete("beside")
    cluster.until_gone("beside")  # Meanwhile there was time to say something of the other.
    written = audited(server, "held")
    server.patch(f"{PODS}/held", {"metadata": {"finalizers": None}})
    cluster.until_gone("held")
    assert written == ["create", "patch status", "delete", "patch status", "delete"]


SLEEPS = {"name": "main", "image": "x", "command": ["sleep", "300"]}
HERE = {"exec": {"command": ["true"]}}


def audited(server: Server, name: str) -> list[str]:
    """What was written to a pod, in order."""
    entries = [json.loads(line) for file in sorted((server.data / "audit").iterdir()) for line in file.open()]
    own = [one for one in entries if one.get("name") == name and one.get("resource") == "pods"]
    return [f"{one['verb']} {one.get('subresource', '')}".strip() for one in own if one["code"] < 300]


def test_images_stand_for_local_commands(cluster: Cluster) -> None:
    cluster.create(
        "imaged", [{"name": "main", "image": "registry.example/greeter:v3"}], restartPolicy="Never"
    )
    assert cluster.until_ended("imaged")["status"]["phase"] == "Succeeded"
    assert cluster.logs("imaged") == "hello from imaged\n"


@pytest.mark.skipif(not find_means("tests").kind, reason="no cgroups here")
def test_who_takes_more_memory_than_its_limit_is_killed_and_it_is_said_why(cluster: Cluster) -> None:
    program = "x = bytearray(300 << 20); print(len(x))"
    limit = {"resources": {"limits": {"memory": "64Mi"}}}
    cluster.run("greedy-memory", "python3", "-c", program, container=limit, restartPolicy="Never")
    whole = {"limits": {"memory": "64Mi"}}
    cluster.run("greedy-together", "python3", "-c", program, resources=whole, restartPolicy="Never")
    for name in ("greedy-memory", "greedy-together"):
        ended = status_of(cluster.until_ended(name))["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
        assert re.fullmatch(r"memory peak \d+ of the limit 67108864 bytes", ended["message"])


@pytest.mark.skipif(not find_means("tests").kind, reason="no cgroups here")
def test_only_the_run_that_took_too_much_memory_is_said_to_have(cluster: Cluster) -> None:
    program = (
        "import os, time\n"
        "if not os.path.exists('again'): open('again', 'w'); bytearray(300 << 20)\n"
        "time.sleep(300)"
    )
    limit = {"resources": {"limits": {"memory": "64Mi"}}}
    cluster.run("learns", "python3", "-c", program, container=limit)
    second = cluster.until(
        "learns", lambda pod: status_of(pod).get("restartCount") == 1 and status_of(pod)["ready"]
    )
    assert status_of(second)["lastState"]["terminated"]["reason"] == "OOMKilled"
    os.kill(pid_of(second), signal.SIGKILL)
    third = cluster.until(
        "learns",
        lambda pod: (
            lookup(status_of(pod), "lastState", "terminated", "containerID")
            == status_of(second)["containerID"]
        ),
    )
    assert status_of(third)["lastState"]["terminated"]["reason"] == "Error"


def test_an_agent_that_dies_while_it_starts_pods_leaves_none_running_twice(
    cluster: Cluster, agent: AgentProcess
) -> None:
    names = [f"crowd-{number}" for number in range(8)]
    for name in names:
        cluster.run(name, "python3", "-c", "import time; time.sleep(600)", name)
    for started in (1, 3, 5):
        eventually(lambda started=started: sum(map(bool, map(processes, names))) >= started)  # type: ignore[misc]  # Bound for this turn.
        agent.end(signal.SIGKILL)
        agent.start()
    pods = [cluster.until_ready(name) for name in names]
    eventually(lambda: [processes(name) for name in names] == [[pid_of(pod)] for pod in pods])


@pytest.mark.parametrize("spoiled", ["pod.json", "runs/main/0/run.json", "runs/main"])
def test_a_pod_whose_record_is_spoiled_runs_once_again(
    cluster: Cluster, agent: AgentProcess, server: Server, spoiled: str
) -> None:
    name = f"spoiled-{spoiled[:3]}-{len(spoiled)}"
    child = f"python3 -c 'import time; time.sleep(600)' {name} & wait"
    first = cluster.run(name, "sh", "-c", child) and cluster.until_ready(name)
    agent.end(signal.SIGKILL)
    file = server.data / "agents" / NODE / "pods" / first["metadata"]["uid"] / spoiled
    if file.is_dir():
        shutil.rmtree(file)
    else:
        file.write_text("spoiled")
    agent.start()
    cluster.until(name, lambda pod: status_of(pod)["ready"] and pid_of(pod) != pid_of(first))
    cluster.until(name, lambda pod: len(processes(name)) == 1)
    assert not lives(pid_of(first))


def test_an_agent_whose_files_were_removed_ends_its_pods_and_runs_others(
    cluster: Cluster, server: Server
) -> None:
    cluster.run("bereft", "sleep", "300")
    bereft = cluster.until_ready("bereft")
    shutil.rmtree(server.data / "agents" / NODE / "pods")
    cluster.run("fresh", "sleep", "300")
    cluster.until_ready("fresh")
    cluster.delete("bereft")
    cluster.until_gone("bereft")
    assert not lives(pid_of(bereft))


def test_a_pod_for_which_there_is_no_room_can_be_deleted(cluster: Cluster, server: Server) -> None:
    place = server.data / "agents" / NODE / "pods"
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("the system permits no mounts")
    try:
        cluster.run("roomless", "sleep", "300")
        cluster.until("roomless", lambda pod: "FailedCreatePodSandBox" in events_of(server, "roomless"))
        cluster.delete("roomless")
        cluster.until_gone("roomless")
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def events_of(server: Server, name: str) -> list[str]:
    query = f"fieldSelector=involvedObject.name={name}"
    found = server.request("GET", f"/api/v1/namespaces/default/events?{query}")["items"]
    return [one["reason"] for one in found]


def test_an_agent_that_can_open_no_files_takes_nobody_for_dead_and_forgets_nothing(
    cluster: Cluster, agent: AgentProcess
) -> None:
    for name in ("stays", "goes", "dies-meanwhile"):
        cluster.run(name, "sleep", "300")
    stays, goes, dies = (cluster.until_ready(name) for name in ("stays", "goes", "dies-meanwhile"))
    assert agent.process is not None
    given = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (4, given[1]))
    try:
        cluster.delete("goes")
        os.kill(pid_of(dies), signal.SIGKILL)
        time.sleep(3)  # Nothing tells that it has tried, as it can neither read nor write.
        assert (lives(pid_of(stays)), lives(pid_of(goes))) == (True, True)
    finally:
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, given)
    cluster.until_gone("goes")
    assert not lives(pid_of(goes))
    again = cluster.until(
        "dies-meanwhile", lambda pod: status_of(pod).get("restartCount") == 1 and status_of(pod)["ready"]
    )
    assert lookup(status_of(again), "lastState", "terminated", "exitCode") == 137
    assert (status_of(cluster.pod("stays"))["restartCount"], lives(pid_of(stays))) == (0, True)


def test_what_a_container_started_ends_with_it_though_its_shim_was_killed(cluster: Cluster) -> None:
    child = "python3 -c 'import time; time.sleep(600)' stray &"
    cluster.run("strays", "sh", "-c", f"{child} (setsid {child}) ; wait")
    first = cluster.until_ready("strays")
    cluster.until("strays", lambda pod: len(processes("stray")) == 2)
    before = processes("stray")
    shim = parent_of(pid_of(first))
    assert shim is not None
    os.kill(shim, signal.SIGKILL)
    second = cluster.until("strays", lambda pod: status_of(pod).get("restartCount") == 1)
    assert lookup(status_of(second), "lastState", "terminated", "reason") == "ContainerStatusUnknown"
    cluster.until("strays", lambda pod: len(processes("stray")) == 2)
    assert not set(before) & set(processes("stray"))


def test_a_new_image_is_a_new_run(cluster: Cluster, server: Server) -> None:
    cluster.run("changes", "sleep", "300")
    before = cluster.until_ready("changes")
    patch = {"spec": {"containers": [{"name": "main", "image": "program:2"}]}}
    server.request("PATCH", f"{PODS}/changes", patch, media="application/strategic-merge-patch+json")
    after = cluster.until(
        "changes", lambda pod: status_of(pod).get("restartCount") == 1 and status_of(pod)["ready"]
    )
    assert (status_of(after)["image"], pid_of(after) == pid_of(before)) == ("program:2", False)


def test_a_working_directory_that_is_not_there_is_named(cluster: Cluster) -> None:
    cluster.run("lost", "pwd", restartPolicy="Never", container={"workingDir": "/not/there"})
    ended = lookup(status_of(cluster.until_ended("lost")), "state", "terminated")
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (
        128, "StartError", "workingDir: No such file or directory: /not/there",
    )  # fmt: skip
