"""What a pod's processes can do to the machine's other processes, and to the agent that judges them by what
they say of themselves."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.living import Cluster, enclosed, eventually, lives, status_of
from tests.security.pod_clusters import one_node

from fathom.agent.host.ids import IDS_PER_POD
from fathom.agent.host.limits import find_means, processes_max
from fathom.agent.host.machine import signals_note
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


def test_without_root_an_agent_tells_that_an_older_kernel_does_not_keep_signals_in() -> None:
    assert [bool(signals_note(version)) for version in (5, 6, 7)] == [True, False, False]


def test_on_a_machine_whose_calls_are_not_known_nothing_is_refused() -> None:
    assert not refuse_calls("a machine that nobody knows")


# A chain: each link starts the next one and ends, so a process found in a list is gone when it is killed.
CHAIN = """
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    time_t end = time(0) + 20;
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            setsid();
            while (time(0) < end) if (fork() > 0) _exit(0);
            _exit(0);
        }
    sleep(1);
    return 0;
}
"""


@pytest.mark.full  # It uses up the machine's process ids within seconds: other tests lose theirs.
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_program_that_never_stops_forking_ends_with_its_container(cluster: Cluster) -> None:
    if cluster.server.data.stat().st_uid != 0 or not find_means("tests").kind:
        pytest.skip("without cgroups nothing keeps a program from forking")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        program = Path(place, "chain")
        Path(place).chmod(0o755)
        subprocess.run(["cc", "-O2", "-x", "c", "-o", str(program), "-"], input=CHAIN, text=True, check=True)
        cluster.run("chain", str(program), restartPolicy="Never")
        ids = identity(cluster, cluster.until_ended("chain"))
        assert not [pid for _ in range(500) for pid in owned(ids)]


def identity(cluster: Cluster, pod: Obj) -> range:
    first = json.loads((directory_of(cluster, pod) / "pod.json").read_bytes())["ids"]
    return range(first, first + IDS_PER_POD)


def owned(ids: range) -> list[str]:
    """Processes of these users; one lives so briefly that a single look may miss it."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid in ids:
                found.append(name)
    return found


def test_a_pod_can_start_a_part_of_the_machines_processes_at_most(cluster: Cluster) -> None:
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC))"
    most = processes_max()
    assert says(cluster, "many", program) == f"({most}, {most})\n"
    assert 256 <= most <= int(Path("/proc/sys/kernel/pid_max").read_text()) // 4


LISTENING = """
import os, socket, time
node = os.environ["HOST_IP"].rpartition(".")[0]
sockets = []
for host in range(2, 255):
    sockets.append(socket.socket())
    try:
        sockets[-1].bind((f"{node}.{host}", 9999))
        sockets[-1].listen()
    except OSError:
        pass
print("all", flush=True)
time.sleep(300)
"""


def test_a_pod_that_listens_on_every_address_of_the_node_keeps_no_other_off_it(cluster: Cluster) -> None:
    cluster.run("everywhere", PYTHON, "-c", LISTENING)
    eventually(lambda: cluster.logs("everywhere") == "all\n")
    assert says(cluster, "squeezed", "print('runs')") == "runs\n"
    cluster.delete("everywhere", gracePeriodSeconds=0)
    cluster.until_gone("everywhere")


NAMED = """
import os, socket, time
name = "\\0fathom-pods-" + os.environ["HOST_IP"].rpartition(".")[0]
waits = socket.socket(socket.AF_UNIX)
print("waits", flush=True)
while True:
    try:
        waits.bind(name)
        break
    except OSError:
        time.sleep(0.001)
print("has it", flush=True)
time.sleep(300)
"""


def test_a_pod_that_takes_the_agents_name_while_it_is_away_keeps_it_from_nothing(cluster: Cluster) -> None:
    cluster.run("squatter", PYTHON, "-c", NAMED)
    eventually(lambda: cluster.logs("squatter") == "waits\n")
    cluster.agent.end()
    log = next(directory_of(cluster, cluster.pod("squatter")).rglob("log"))
    eventually(lambda: "has it" in log.read_text())
    cluster.agent.start()
    assert says(cluster, "afterwards", "print('runs')") == "runs\n"
    cluster.delete("squatter", gracePeriodSeconds=0)
    cluster.until_gone("squatter")
