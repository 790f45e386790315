"""What a pod's processes can do to the machine's other processes, and to the agent that judges them by what
they say of themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.living import Cluster, enclosed, lives, status_of
from tests.security.pod_clusters import one_node

from fathom.agent.system_calls import refuse_calls
from fathom.model.objects import Obj

pytestmark = [enclosed, pytest.mark.live]

PYTHON = "/usr/bin/python3"
OPERATORS = "a value that is the operator's alone"


@pytest.fixture(scope="module", params=["root", "user"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    os.environ["OPERATORS_OWN"] = OPERATORS
    try:
        with one_node(request.param) as made:
            yield made
            made.clean()
    finally:
        del os.environ["OPERATORS_OWN"]


def says(cluster: Cluster, name: str, program: str, **container: object) -> str:
    """All that a pod which runs this Python says until it has ended."""
    words = (PYTHON, "-c", program)
    cluster.run(name, *words, restartPolicy="Never", container=container)
    cluster.until_ended(name)
    return cluster.logs(name)


def directory_of(cluster: Cluster, pod: Obj) -> Path:
    return cluster.server.data / "agents/n1/pods" / str(pod["metadata"]["uid"])


def process_of(cluster: Cluster, pod: Obj) -> int:
    (record,) = directory_of(cluster, pod).rglob("run.json")
    return int(json.loads(record.read_bytes())["pid"])


def test_a_process_that_calls_itself_another_pods_shim_ends_nothing_when_an_agent_begins(
    cluster: Cluster,
) -> None:
    cluster.run("bystander", "sleep", "300")
    bystander = cluster.until_ready("bystander")
    pid = process_of(cluster, bystander)
    words = ("/x/fathom/agent/shim.py", f"{directory_of(cluster, bystander)}/spec.json")
    cluster.run("forger", PYTHON, "-c", "import time; time.sleep(300)", *words)
    cluster.until_ready("forger")
    cluster.agent.end()
    cluster.agent.start()
    cluster.run("later", "true", restartPolicy="Never")
    cluster.until_ended("later")
    after = status_of(cluster.pod("bystander"))
    assert (lives(pid), after["restartCount"]) == (True, 0)


def test_the_environment_of_the_agent_is_in_no_process_that_a_pod_can_read(cluster: Cluster) -> None:
    program = """
import glob
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        print("it is in", path) if b"OPERATORS_OWN" in open(path, "rb").read() else None
    except OSError:
        pass
print("over")
"""
    probe = {"exec": {"command": ["true"]}}
    assert says(cluster, "environ", program, readinessProbe=probe) == "over\n"


def test_a_pod_sets_no_limit_of_a_process_outside(cluster: Cluster) -> None:
    """With a limit of CPU time or of files it could end them all."""
    assert cluster.agent.process is not None
    program = f"""
import os, resource
def attempt(pid):
    try:
        return resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)) and "done"
    except PermissionError as error:
        return error.strerror
print(attempt({cluster.agent.process.pid}), attempt(os.getppid()), attempt(0))
"""
    refused = "Operation not permitted"
    assert says(cluster, "limits", program) == f"{refused} {refused} done\n"


def test_a_pod_has_no_part_in_the_keyrings_of_the_kernel(cluster: Cluster) -> None:
    """Without root they are the agent's too; with root, those of the session that it was started in."""
    program = """
import ctypes, errno, os
numbers = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
for number in numbers:
    print(libc.syscall(number, 0, -3, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
"""
    assert says(cluster, "keys", program) == "-1 EPERM\n" * 3


def test_on_a_machine_whose_calls_are_not_known_nothing_is_refused() -> None:
    assert not refuse_calls("a machine that nobody knows")
