"""`fathom exec`, `cp` and `port-forward`: what they print, with which exit code, also in a terminal."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.terminals import FATHOM, Terminal, resized_interrupted_and_left
from tests.clients.kubectl import Kubectl
from tests.cluster.connecting import NS, fetch, forwarded
from tests.cluster.living import Cluster, Obj


class Ran:
    """A command of fathom's, ended."""

    def __init__(self, cluster: Cluster, *words: str, stdin: bytes = b"") -> None:
        command = [*FATHOM, "--kubeconfig", str(cluster.data / "kubeconfig"), "-n", NS, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr.decode()


def test_exec_passes_input_output_and_exit_code_on(cluster: Cluster, web: Obj) -> None:
    ran = Ran(cluster, "exec", "web", "-c", "main", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (ran.code, ran.out, ran.err) == (3, b"out\n", "err\n")
    sent = os.urandom(3 << 20)
    ran = Ran(cluster, "exec", "-i", "web", "--", "cat", stdin=sent)
    assert (ran.code, ran.out == sent) == (0, True)
    assert ran.err == 'Defaulted container "main" out of: main, side\n'


def test_mistakes_are_explained(cluster: Cluster, web: Obj) -> None:
    ran = Ran(cluster, "exec", "nopod", "--", "id")
    assert (ran.code, ran.err) == (1, 'fathom: error: pods "nopod" not found\n')
    ran = Ran(cluster, "exec", "web", "-c", "x", "--", "id")
    said = "pod web has no container 'x'; it has main, side"
    assert (ran.code, ran.err) == (1, f"fathom: error: {said}\n")


def test_who_may_not_is_told_so_in_the_servers_words(cluster: Cluster, web: Obj, tmp_path: Path) -> None:
    token = cluster.ask(
        "POST", f"/api/v1/namespaces/{NS}/serviceaccounts/default/token", {"spec": {"audiences": []}}
    )["status"]["token"]
    binding = {
        "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": NS}],
    }
    cluster.ask("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NS}/rolebindings", binding)
    config = (cluster.data / "kubeconfig").read_text()
    config = re.sub(r"client-certificate-data: .*\n", f"token: {token}\n", config)
    config = re.sub(r"\s*client-key-data: .*\n", "\n", config)
    (tmp_path / "kubeconfig").write_text(config)
    words = [
        *FATHOM,
        "--kubeconfig",
        str(tmp_path / "kubeconfig"),
        "-n",
        NS,
        "exec",
        "web",
        "-c",
        "main",
        "--",
        "id",
    ]
    done = subprocess.run(words, capture_output=True, check=False, timeout=60, text=True)
    user = f'User "system:serviceaccount:{NS}:default"'
    where = f'in API group "" in the namespace "{NS}"'
    said = f'pods "web" is forbidden: {user} cannot create resource "pods/exec" {where}'
    assert (done.returncode, done.stderr) == (1, f"fathom: error: {said}\n")


def test_a_terminal_has_a_size_a_ctrl_c_and_an_exit_code(cluster: Cluster, web: Obj) -> None:
    where = ["-n", NS, "--kubeconfig", str(cluster.data / "kubeconfig")]
    command = [*FATHOM, "exec", "-it", "web", "-c", "main", *where,
               "--", "sh"]  # fmt: skip
    with Terminal(command, columns=111, env={}) as terminal:
        terminal.wait_for("$ ")
        terminal.type("stty size; tty\n")
        assert "50 111\r\n" in terminal.wait_for("/dev/pts/")
        assert resized_interrupted_and_left(terminal) == 5


@pytest.mark.full
def test_files_are_copied_both_ways(cluster: Cluster, web: Obj, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/one").write_bytes(os.urandom(100_000))
    (tmp_path / "tree/link").symlink_to("one")
    where = Ran(cluster, "exec", "web", "-c", "side", "--", "mktemp", "-d").out.decode().strip()
    ran = Ran(cluster, "cp", str(tmp_path / "tree"), f"web:{where}/copy", "-c", "side")
    assert (ran.code, ran.out, ran.err) == (0, b"", "")
    ran = Ran(cluster, "cp", f"web:{where}/copy", str(tmp_path / "back"), "-c", "side")
    assert (ran.code, ran.out, ran.err) == (0, b"", "")
    assert (tmp_path / "back/one").read_bytes() == (tmp_path / "tree/one").read_bytes()
    assert os.readlink(tmp_path / "back/link") == "one"
    # What a pod packs is not trusted: a link out of the copy is refused.
    Ran(cluster, "exec", "web", "-c", "side", "--", "ln", "-s", "/etc/passwd", f"{where}/copy/out")
    ran = Ran(cluster, "cp", f"web:{where}/copy", str(tmp_path / "again"), "-c", "side")
    assert ran.code == 1
    assert "cannot be written" in ran.err
    assert not (tmp_path / "again/out").exists()
    Ran(cluster, "exec", "web", "-c", "side", "--", "rm", "-r", where)


def test_ports_are_forwarded(cluster: Cluster, web: Obj, tmp_path: Path) -> None:
    k = Kubectl("fathom", cluster.data / "kubeconfig", tmp_path, NS)
    with forwarded(k, "pod/web", ":8080", program=FATHOM) as port:
        assert [fetch(port, path) for path in ("/a", "/b")] == ["/a" * 1000, "/b" * 1000]
