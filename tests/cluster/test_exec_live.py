"""exec, attach, cp and port-forward with the real kubectl and Python's official client, on a real cluster."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from kubernetes.stream import portforward, stream
from tests.cli.terminals import Terminal, resized_interrupted_and_left
from tests.clients.kubectl import Kubectl
from tests.cluster.connecting import NS, audited, container, create, fetch, forwarded, until_running
from tests.cluster.living import Cluster, Obj, until


@pytest.fixture
def k(web: Obj, kubectl_binary: str, cluster: Cluster, kubectl_home: Path) -> Kubectl:
    return Kubectl(kubectl_binary, cluster.data / "kubeconfig", kubectl_home, NS)


# exec.


def test_a_command_has_its_output_its_input_and_its_exit_code(k: Kubectl) -> None:
    done = k.run("exec web -c main --", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.code, done.out, done.err) == (3, "out\n", "err\ncommand terminated with exit code 3\n")
    assert k.ok("exec -i web -c side -- cat", stdin="hi\n") == "hi\n"
    assert k.ok("exec web -c main --", "echo", "a b", "'$HOME'", "ü", "\n") == "a b '$HOME' ü \n\n"


def test_a_program_that_is_not_there_says_so(k: Kubectl) -> None:
    done = k.run("exec web -c main -- no-such-program")
    words = "executable file not found in $PATH (or not accessible to its user): no-such-program\n"
    assert (done.code, done.err) == (127, f"{words}command terminated with exit code 127\n")


def test_much_goes_in_and_comes_out_unchanged(k: Kubectl, tmp_path: Path) -> None:
    sent = os.urandom(1 << 20) * 8
    (tmp_path / "sent").write_bytes(sent)
    came = raw(k, "exec", "-i", "web", "-c", "main", "--", "cat", stdin=sent)
    assert hashlib.sha256(came).hexdigest() == hashlib.sha256(sent).hexdigest()


@pytest.mark.full
def test_fifty_megabytes_go_in_and_come_out_unchanged(k: Kubectl) -> None:
    sent = os.urandom(1 << 20) * 50
    came = raw(k, "exec", "-i", "web", "-c", "main", "--", "cat", stdin=sent)
    assert hashlib.sha256(came).hexdigest() == hashlib.sha256(sent).hexdigest()


def raw(k: Kubectl, *words: str, stdin: bytes = b"") -> bytes:
    command = [k.binary, "--kubeconfig", str(k.kubeconfig), "-n", NS, *words]
    environment = {**os.environ, "HOME": str(k.home)}
    done = subprocess.run(
        command, input=stdin, capture_output=True, check=False, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_terminal_has_a_size_a_ctrl_c_and_an_exit_code(k: Kubectl) -> None:
    command = [
        k.binary,
        "--kubeconfig",
        str(k.kubeconfig),
        "-n",
        NS,
        "exec",
        "-it",
        "web",
        "-c",
        "main",
        "--",
        "sh",
    ]
    with Terminal(command, columns=111, env={"HOME": str(k.home), "PS1": "$ "}) as terminal:
        terminal.wait_for("$ ")
        terminal.type("stty size; tty; echo $TERM\n")
        assert re.search(r"50 111\r\n/dev/pts/\d+\r\nxterm\r\n", terminal.wait_for("xterm\r\n"))
        assert resized_interrupted_and_left(terminal) == 5


def test_a_command_ends_when_its_client_goes_away(k: Kubectl, cluster: Cluster) -> None:
    command = [k.binary, "--kubeconfig", str(k.kubeconfig), "-n", NS, "exec", "web", "-c", "main", "--",
               "sh", "-c", "echo $$; sleep 1000"]  # fmt: skip
    client = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "HOME": str(k.home)})
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    client.kill()
    client.wait()
    until(lambda: not Path(f"/proc/{pid}").exists(), cluster.told)


def test_a_command_ends_with_its_container(k: Kubectl, cluster: Cluster) -> None:
    create(cluster, "short", container("main", "sleep", "1000"), terminationGracePeriodSeconds=0)
    until_running(cluster, "short")
    done: list[Any] = []
    # It prints nothing: a kubectl that is slow to begin says on stderr that it has discarded early output.
    client = threading.Thread(target=lambda: done.append(k.run("exec short -- sleep 1000")))
    client.start()
    until(lambda: audited(cluster, "exec") and audited(cluster, "exec")[-1]["name"] == "short", cluster.told)
    k.run("delete pod short --wait=false")
    client.join(60)
    assert (done[0].code, done[0].err) == (137, "command terminated with exit code 137\n")


def test_refusals_name_their_reason(k: Kubectl, cluster: Cluster) -> None:
    said = "container nope is not valid for pod web, choose one of: [main side]"
    assert k.fails("exec web -c nope -- id") == f"Error from server (BadRequest): {said}"
    assert k.fails("exec nopod -- id") == 'Error from server (NotFound): pods "nopod" not found'
    create(cluster, "over", container("main", "true"), restartPolicy="Never")
    path = f"/api/v1/namespaces/{NS}/pods/over"
    until(lambda: cluster.ask("GET", path)["status"]["phase"] == "Succeeded", cluster.told)
    assert "completed pod; current phase is Succeeded" in k.fails("exec over -- id")
    create(cluster, "waits", container("main", "true", image="no-such-image:1", command=None))
    until(lambda: cluster.ask("GET", path[:-4] + "waits")["status"].get("containerStatuses"), cluster.told)
    assert "container main of pod waits is not running" in k.fails("exec waits -- id")


def test_the_older_protocol_is_refused_with_what_to_do(k: Kubectl) -> None:
    old = k.with_environment(
        KUBECTL_REMOTE_COMMAND_WEBSOCKETS="false", KUBECTL_PORT_FORWARD_WEBSOCKETS="false"
    )
    assert "exec is served over WebSocket only, not over 'SPDY/3.1'" in old.fails("exec web -c main -- id")
    assert "portforward is served over WebSocket only" in old.fails("port-forward web :8080")


# Who may.


def bind(cluster: Cluster, name: str, role: str, *rules: Obj) -> str:
    """A user with the role, or with these rules."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NS}"
    if rules:
        cluster.ask("POST", f"{rbac}/roles", {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role" if rules else "ClusterRole"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    cluster.ask("POST", f"{rbac}/rolebindings", {
        "metadata": {"name": name}, "roleRef": {**reference, "name": role}, "subjects": [subject],
    })  # fmt: skip
    return name


def test_view_may_not_connect_and_edit_may(k: Kubectl, cluster: Cluster) -> None:
    viewer, editor = bind(cluster, "vera", "view"), bind(cluster, "eddy", "edit")
    for words, what in (("exec web -c main -- id", "exec"), ("attach reads", "attach"),
                        ("port-forward web :8080", "portforward")):  # fmt: skip
        said = k.fails(f"--as={viewer} {words}")
        who, pod = 'User "vera" cannot create resource', words.split()[1]
        where = f'in API group "" in the namespace "{NS}"'
        assert f'pods "{pod}" is forbidden: {who} "pods/{what}" {where}' in said
    assert "uid=" in k.ok(f"--as={editor} exec web -c main -- id")

    def refused() -> list[tuple[str, list[str], int]]:
        entries = [entry for entry in audited(cluster, "exec") if entry["user"] == viewer]
        return [(entry["container"], entry["command"], entry["code"]) for entry in entries]

    until(lambda: ("main", ["id"], 403) in refused(), cluster.told)


def test_permission_to_get_is_not_enough_and_to_create_is(k: Kubectl, cluster: Cluster) -> None:
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    connect = {"apiGroups": [""], "resources": ["pods/exec"]}
    reads = bind(cluster, "reader", "reader", pods, {**connect, "verbs": ["get"]})
    makes = bind(cluster, "maker", "maker", pods, {**connect, "verbs": ["create"]})
    assert 'cannot create resource "pods/exec"' in k.fails(f"--as={reads} exec web -c main -- id")
    assert "uid=" in k.ok(f"--as={makes} exec web -c main -- id")
    node = "--as=system:node:node-1 --as-group=system:nodes"
    assert 'cannot create resource "pods/exec"' in k.fails(f"{node} exec web -c main -- id")


def test_the_audit_log_has_who_ran_what_and_how_long(k: Kubectl, cluster: Cluster) -> None:
    k.ok("exec web -c side -- echo audited")

    def entries() -> list[Obj]:
        return [each for each in audited(cluster, "exec") if each.get("command") == ["echo", "audited"]]

    until(lambda: len(entries()) == 2, cluster.told)
    begun, ended = entries()
    facts = ("user", "verb", "resource", "subresource", "namespace", "name", "container", "command", "code")
    assert {fact: begun[fact] for fact in facts} == {
        "user": "fathom-admin", "verb": "create", "resource": "pods", "subresource": "exec", "namespace": NS,
        "name": "web", "container": "side", "command": ["echo", "audited"], "code": 101,
    }  # fmt: skip
    assert ended["id"] == f"{begun['id']}.end"
    assert "seconds" not in begun
    assert ended["seconds"] >= 0
    k.fails("exec web -c nope -- echo refused")
    until(lambda: [each["code"] for each in audited(cluster, "exec")][-1:] == [400], cluster.told)


# cp, attach, port-forward.


def test_files_are_copied_both_ways(k: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/one").write_bytes(os.urandom(100_000))
    (tmp_path / "tree/two").write_text("zwei")
    where = k.ok("exec web -c side -- mktemp -d").strip()
    k.ok(f"cp {tmp_path}/tree web:{where}/ -c side")
    assert k.ok(f"exec web -c side -- cat {where}/tree/two") == "zwei"
    assert k.run(f"cp web:{where}/tree {tmp_path}/back -c side").code == 0
    assert (tmp_path / "back/one").read_bytes() == (tmp_path / "tree/one").read_bytes()
    k.ok(f"exec web -c side -- rm -r {where}")


def test_attach_has_the_programs_own_input_and_output(k: Kubectl, cluster: Cluster) -> None:
    done = k.run("attach -i reads", stdin="one\ntwo\n")
    assert (done.code, done.out) == (0, "got one\ngot two\nbye\n")
    assert done.err.splitlines()[-1:] == ["err"]
    path = f"/api/v1/namespaces/{NS}/pods/reads"
    until(lambda: cluster.ask("GET", path)["status"]["phase"] == "Succeeded", cluster.told)
    assert sorted(k.ok("logs reads").splitlines()) == ["bye", "err", "got one", "got two"]


def test_attach_to_a_terminal(k: Kubectl) -> None:
    command = [k.binary, "--kubeconfig", str(k.kubeconfig), "-n", NS, "attach", "-it", "shell"]
    with Terminal(command, columns=99, env={"HOME": str(k.home)}) as terminal:
        terminal.wait_for("press")
        terminal.type("\nwhile [ \"$(stty size)\" != '50 99' ]; do sleep 0.1; done; echo si''zed; tty\n")
        terminal.wait_for("/dev/pts/")
        terminal.type("exit\n")
        assert terminal.finish()[0] == 0


def test_connections_are_forwarded_to_the_pod_several_at_a_time(k: Kubectl, cluster: Cluster) -> None:
    with forwarded(k, "web", ":8080") as port:
        answers: dict[str, str] = {}
        paths = [f"/{number}" for number in range(8)]
        threads = [
            threading.Thread(target=lambda at=path: answers.update({at: fetch(port, at)})) for path in paths
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert answers == {path: path * 1000 for path in paths}
        assert fetch(port, "/again") == "/again" * 1000

    def entries() -> list[tuple[str, Any]]:
        ours = [entry for entry in audited(cluster, "portforward") if entry["code"] == 101]
        return [(entry["id"].partition(".")[2], entry.get("ports")) for entry in ours]

    until(lambda: ("end", [8080]) in entries(), cluster.told)
    assert ("port-8080", [8080]) in entries()


def test_a_port_on_which_the_pod_does_not_listen_is_never_anothers(k: Kubectl) -> None:
    """Pods share the loopback: another process that listens there must not answer."""
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        other.settimeout(1)
        taken = other.getsockname()[1]
        with (
            forwarded(k, "web", f":{taken}") as port,
            socket.create_connection(("127.0.0.1", port)) as client,
        ):
            client.settimeout(20)
            client.sendall(b"hello")
            with suppress(ConnectionError):
                assert client.recv(10) == b""
        with pytest.raises(TimeoutError):
            other.accept()


# Python's official client.


@pytest.fixture
def official(web: Obj, cluster: Cluster) -> kubernetes.client.CoreV1Api:
    made = kubernetes.config.new_client_from_config(str(cluster.data / "kubeconfig"))
    return kubernetes.client.CoreV1Api(made)


def test_the_official_client_runs_commands(official: kubernetes.client.CoreV1Api) -> None:
    ran = stream(
        official.connect_get_namespaced_pod_exec, "web", NS, container="main", stdin=True, stdout=True,
        stderr=True, tty=False, command=["sh", "-c", "read line; echo got $line; echo err >&2; exit 4"],
        _preload_content=False,
    )  # fmt: skip
    ran.write_stdin("hello\n")
    ran.run_forever(timeout=20)
    assert (ran.read_stdout(), ran.read_stderr(), ran.returncode) == ("got hello\n", "err\n", 4)


def test_the_official_client_forwards_ports(official: kubernetes.client.CoreV1Api) -> None:
    forward = portforward(official.connect_get_namespaced_pod_portforward, "web", NS, ports="8080")
    connection = forward.socket(8080)
    connection.settimeout(20)
    connection.sendall(b"GET /py HTTP/1.0\r\n\r\n")
    answer = b""
    while data := connection.recv(65536):
        answer += data
    connection.close()
    assert answer.endswith(b"/py" * 1000)
    assert forward.error(8080) is None
