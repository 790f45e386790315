"""A pod may not lead the agent out of the directories that are the pod's: by links, by swapping directories
while a container starts, by hard links, by pipes. On a cluster of root, and on one of an ordinary user."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.living import Cluster, status_of
from tests.cluster.living import until
from tests.security.pod_clusters import (
    init,
    mount,
    one_node,
    outside_directory,
    seen_of,
    until_refused,
    waiting,
)

from fathom.model.objects import Obj, lookup

VOLUME = {"name": "v", "emptyDir": {}}
# A directory and a link take turns under one name, as long as the test may last.
SWAPPING = """
import os, time
os.chdir("{place}")
for to, name in {pairs}:
    os.mkdir("dir" + name); os.symlink(to, "link" + name)
open("on", "w").close()
turns, end = 0, time.monotonic() + 120
while time.monotonic() < end:
    for _, name in {pairs}:
        for which in ("dir" + name, "link" + name):
            turns += 1
            try:
                os.rename(which, name); os.rename(name, which)
            except OSError:  # Somebody made a directory of that name.
                os.rename(name, "old" + str(turns))
"""
SWAPS = 12  # Containers that start while another swaps what they mount: each is a try.


def none_saw_a_key(cluster: Cluster, name: str, tries: list[Obj]) -> None:
    """Each container of the pod has run and printed no key, or was not started for its mount."""

    def is_decided(pod: Obj) -> bool:
        return all(
            lookup(status_of(pod, one["name"]), "state", "terminated")
            or waiting(pod, one["name"]).get("message")
            for one in tries
        )

    pod = cluster.until(name, is_decided, within_s=90.0)
    for one in tries:
        if lookup(status_of(pod, one["name"]), "state", "terminated"):
            assert "PRIVATE KEY" not in cluster.logs(name, f"container={one['name']}")
        else:
            assert waiting(pod, one["name"])["reason"] == "CreateContainerConfigError"


@pytest.fixture(scope="module", params=["root", "user"])
def node(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with one_node(request.param) as cluster:
        yield cluster


@pytest.fixture
def cluster(node: Cluster) -> Iterator[Cluster]:
    yield node
    node.clean()


@pytest.fixture
def outside(node: Cluster) -> Iterator[Path]:
    with outside_directory(node) as place:
        yield place


def test_a_sub_path_through_a_link_shows_nothing_of_the_servers_data(cluster: Cluster) -> None:
    data = cluster.server.data
    tokens = data / "tokens.csv"
    before = tokens.read_bytes() if tokens.exists() else None
    script = "cat /d/pki/ca.key; echo evil,root,0,system:masters >> /d/tokens.csv"
    cluster.run(
        "reads", "sh", "-c", script, volumes=[VOLUME], restartPolicy="Never",
        initContainers=[init("links", f"ln -s {data} /v/d", mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/d", subPath="d")]},
    )  # fmt: skip
    said = until_refused(
        cluster, "reads", lambda message: "subPath" in message and "d is a symbolic link" in message
    )
    assert said.startswith('failed to prepare subPath for volumeMount "v" of container "main"')
    assert (tokens.read_bytes() if tokens.exists() else None) == before


@pytest.mark.parametrize(
    "below", ["out", "out/evil", "out/evil/deep", "dir/out/evil", "dangling", "dangling/x"]
)
def test_a_sub_path_through_a_link_makes_nothing_outside(cluster: Cluster, outside: Path, below: str) -> None:
    before = seen_of(outside)
    site = outside / "site"
    links = f"mkdir /v/dir; ln -s {site} /v/out; ln -s {site} /v/dir/out; ln -s {outside}/new /v/dangling"
    cluster.run(
        "makes", "sh", "-c", "touch /d/x", volumes=[VOLUME], restartPolicy="Never",
        initContainers=[init("links", links, mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/d", subPath=below)]},
    )  # fmt: skip
    until_refused(cluster, "makes", lambda message: "is a symbolic link" in message)
    assert seen_of(outside) == before


def test_a_sub_path_whose_name_is_a_variable_is_walked_as_carefully(cluster: Cluster, outside: Path) -> None:
    before = seen_of(outside)
    cluster.run(
        "named", "sh", "-c", "touch /d/x", volumes=[VOLUME], restartPolicy="Never",
        initContainers=[init("links", f"ln -s {outside}/site /v/out", mount("v", "/v"))],
        container={
            "env": [{"name": "WHERE", "value": "out/evil"}],
            "volumeMounts": [mount("v", "/d", subPathExpr="$(WHERE)")],
        },
    )  # fmt: skip
    until_refused(cluster, "named", lambda message: "out is a symbolic link" in message)
    assert seen_of(outside) == before


def test_a_sub_path_of_a_host_path_does_not_follow_links_either(cluster: Cluster, outside: Path) -> None:
    shared = outside / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    before = seen_of(outside / "site")
    volume = {"name": "v", "hostPath": {"path": str(shared)}}
    cluster.run(
        "host", "sh", "-c", "touch /d/x", volumes=[volume], restartPolicy="Never",
        initContainers=[init("links", f"ln -s {outside}/site /v/out", mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/d", subPath="out/evil")]},
    )  # fmt: skip
    until_refused(cluster, "host", lambda message: "out is a symbolic link" in message)
    assert seen_of(outside / "site") == before


def test_a_directory_swapped_for_a_link_while_containers_start_leads_nowhere(
    cluster: Cluster, outside: Path
) -> None:
    data, before = cluster.server.data, seen_of(outside)
    swaps = SWAPPING.format(place="/v", pairs=[(str(data), "x"), (f"{outside}/site", "y")])
    script = "cat /d/pki/ca.key; ls -R /d /e"
    tries = [
        init(
            f"try{number}", script, mount("v", "/d", subPath="x"), mount("v", "/e", subPath="y/evil/deep"),
            mount("v", "/v"), mount("w", f"/v/y/new{number}/deep"),
        )
        for number in range(SWAPS)
    ]  # fmt: skip
    side = {
        "name": "swaps", "image": "x", "restartPolicy": "Always", "command": ["python3", "-c", swaps],
        "volumeMounts": [mount("v", "/v")],
        "startupProbe": {"exec": {"command": ["test", "-e", "/v/on"]}, "periodSeconds": 1},
    }  # fmt: skip
    volumes = [VOLUME, {"name": "w", "emptyDir": {}}]
    cluster.create("swapped", tries, initContainers=[side], volumes=volumes, restartPolicy="Never")
    none_saw_a_key(cluster, "swapped", tries)
    assert seen_of(outside) == before
    assert not (data / "evil").exists()


@pytest.mark.parametrize("below", ["x", "x/new", "x/new/deep"])
def test_a_mount_point_below_a_volume_is_not_reached_through_the_volumes_links(
    cluster: Cluster, outside: Path, below: str
) -> None:
    before = seen_of(outside)
    cluster.run(
        "target", "true", restartPolicy="Never", volumes=[VOLUME, {"name": "w", "emptyDir": {}}],
        initContainers=[init("links", f"ln -s {outside}/site /v/x", mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/v"), mount("w", f"/v/{below}")]},
    )  # fmt: skip
    until_refused(cluster, "target", lambda message: f"mountPath /v/{below}: x is a symbolic link" in message)
    assert seen_of(outside) == before


@pytest.mark.parametrize("path", ["/proc", "/proc/self", "/proc/../proc/x"])
def test_nothing_is_mounted_over_proc_by_which_descriptors_are_named(cluster: Cluster, path: str) -> None:
    links = "mkdir -p /v/self/fd; for n in $(seq 0 64); do ln -s /etc /v/self/fd/$n; done"
    cluster.run(
        "proc", "true", restartPolicy="Never", volumes=[VOLUME, {"name": "w", "emptyDir": {}}],
        initContainers=[init("links", links, mount("v", "/v"))],
        container={"volumeMounts": [mount("v", path), mount("w", "/x/new/deep/er")]},
    )  # fmt: skip
    until_refused(cluster, "proc", lambda message: "nothing can be mounted over /proc" in message)


def test_a_message_of_the_end_is_not_reached_through_a_volumes_links(cluster: Cluster, outside: Path) -> None:
    before = seen_of(outside)
    cluster.run(
        "message", "sh", "-c", "echo bye > /v/told", restartPolicy="Never", volumes=[VOLUME],
        initContainers=[init("links", f"ln -s {outside}/site/kept /v/told", mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/v")], "terminationMessagePath": "/v/told"},
    )  # fmt: skip
    until_refused(cluster, "message", lambda message: "/v/told: told is a symbolic link" in message)
    assert seen_of(outside) == before


def test_a_host_path_swapped_for_a_link_never_shows_the_servers_data(cluster: Cluster, outside: Path) -> None:
    """The agent resolves a host path; what it then opens is what it resolved."""
    shared = outside / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    data = cluster.server.data
    swaps = SWAPPING.format(place="/h", pairs=[(str(data), "x")])
    host = {"name": "h", "hostPath": {"path": str(shared)}}
    side = {
        "name": "swaps", "image": "x", "restartPolicy": "Always", "command": ["python3", "-c", swaps],
        "volumeMounts": [mount("h", "/h")],
        "startupProbe": {"exec": {"command": ["test", "-e", "/h/on"]}, "periodSeconds": 1},
    }  # fmt: skip
    tries = [
        init(f"try{number}", "cat /d/pki/ca.key", mount("x", "/d"))
        for number in range(SWAPS)
    ]  # fmt: skip
    volumes = [host, {"name": "x", "hostPath": {"path": str(shared / "x")}}]
    cluster.create("hosts", tries, initContainers=[side], volumes=volumes, restartPolicy="Never")
    none_saw_a_key(cluster, "hosts", tries)


def test_what_is_hidden_cannot_be_moved_to_where_a_pod_mounts_it_from(
    cluster: Cluster, outside: Path
) -> None:
    """What covers it is in one place of the view; a host path is a second view of the same directories."""
    above = cluster.server.data.parent
    moves = (
        "import os, sys\n"
        f"for source in ('{cluster.server.data}', '{above}'):\n"
        f"    for to in ('{outside}/moved', '/h/moved', '{above}-moved'):\n"
        "        try: os.rename(source, to); print('moved', source, to)\n"
        "        except OSError as error: print(error.strerror)\n"
        "os.system('cat /h/moved/pki/ca.key /h/moved/data/pki/ca.key')\n"
    )
    cluster.run(
        "moves", "python3", "-c", moves, restartPolicy="Never",
        volumes=[{"name": "h", "hostPath": {"path": str(outside)}}],
        container={"volumeMounts": [mount("h", "/h")]},
    )  # fmt: skip
    cluster.until_ended("moves")
    said = cluster.logs("moves")
    assert "moved /" not in said, said
    assert "PRIVATE KEY" not in said
    assert (above / "data/pki/ca.key").is_file()


def test_what_a_pod_leaves_is_removed_however_deep_and_nothing_else_is(
    cluster: Cluster, outside: Path
) -> None:
    before = seen_of(outside)
    litter = (
        f"import os; os.chdir('/v'); os.symlink('{outside}', 'out'); os.mkdir('shut'); os.mkdir('shut/in')\n"
        "for _ in range(1500): os.mkdir('d'); os.chdir('d')\n"
        "os.chmod('/v/shut', 0)\n"
    )
    pod = cluster.run(
        "litter", "python3", "-c", litter, restartPolicy="Never", volumes=[VOLUME],
        container={"volumeMounts": [mount("v", "/v")]},
    )  # fmt: skip
    assert cluster.until_ended("litter")["status"]["phase"] == "Succeeded", cluster.logs("litter")
    place = next(cluster.server.data.glob(f"agents/*/pods/{pod['metadata']['uid']}"))
    cluster.delete("litter")
    cluster.until_gone("litter")
    until(
        lambda: not place.exists() and not list(place.parent.parent.glob("removed/*")),
        lambda: f"still there: {list(place.parent.parent.glob('*/*'))}",
    )
    assert seen_of(outside) == before


# What must go on working.


def test_a_volume_in_a_volume_leaves_the_outer_one_shared(cluster: Cluster) -> None:
    """A mount point is made in the pod's own volume: what one container writes beside it, others see."""
    cluster.run(
        "nested", "sh", "-c", "cat /v/said /v/deep/in/said; ls /v", restartPolicy="Never",
        volumes=[VOLUME, {"name": "w", "emptyDir": {}}],
        initContainers=[
            init("writes", "cd /v; echo one > said; echo two > deep/in/said",
                 mount("v", "/v"), mount("w", "/v/deep/in"))
        ],
        container={"volumeMounts": [mount("v", "/v"), mount("w", "/v/deep/in")]},
    )  # fmt: skip
    cluster.until_ended("nested")
    assert cluster.logs("nested") == "one\ntwo\ndeep\nsaid\n"


def test_sub_paths_are_made_and_shared_and_a_host_path_may_be_a_link(cluster: Cluster, outside: Path) -> None:
    real = outside / "real"
    real.mkdir()
    real.chmod(0o777)
    (outside / "link").symlink_to(real)
    host = {"name": "h", "hostPath": {"path": str(outside / "link"), "type": "Directory"}}
    cluster.run(
        "parts", "sh", "-c", "cat /d/said /f; echo three > /h/deep/said", restartPolicy="Never",
        volumes=[VOLUME, host],
        initContainers=[
            init("writes", "echo one > /d/said; echo two > /v/file",
                 mount("v", "/d", subPath="a/b"), mount("v", "/v"))
        ],
        container={
            "volumeMounts": [
                mount("v", "/d", subPath="a/b"), mount("v", "/f", subPath="file", readOnly=True),
                mount("h", "/h"), mount("h", "/e", subPath="deep"),
            ]
        },
    )  # fmt: skip
    assert cluster.until_ended("parts")["status"]["phase"] == "Succeeded", cluster.logs("parts")
    assert cluster.logs("parts") == "one\ntwo\n"
    assert (real / "deep/said").read_text() == "three\n"


@pytest.mark.parametrize("through", ["/proc/1/root", "/proc/{agent}/root", "/proc/{victim}/root", ""])
def test_a_working_directory_is_entered_with_the_rights_of_the_pod(cluster: Cluster, through: str) -> None:
    """Through /proc the files of other processes can be reached, in which nothing is hidden: only root may
    do that, and the process that becomes a container begins as root."""
    name = f"seen-{len(through)}"
    hoard: Obj = {"name": "main", "image": "x", "command": ["sh", "-c", "echo secret > /room/s; sleep 300"]}
    hoard["volumeMounts"] = [mount("room", "/room")]
    cluster.create(f"{name}-victim", [hoard], volumes=[{"name": "room", "emptyDir": {}}])
    victim = cluster.until_ready(f"{name}-victim")
    place = cluster.server.data / f"agents/n1/pods/{victim['metadata']['uid']}"
    (record,) = place.rglob("run.json")
    assert cluster.agent.process is not None
    pids = {"agent": cluster.agent.process.pid, "victim": json.loads(record.read_bytes())["pid"]}
    room = "/room" if "victim" in through else f"{place}/volumes/room"
    container = {"workingDir": through.format(**pids) + room}
    cluster.run(name, "sh", "-c", "pwd; ls; cat s", restartPolicy="Never", container=container)
    ended = lookup(status_of(cluster.until_ended(name)), "state", "terminated") or {}
    assert (cluster.logs(name), ended.get("reason")) == ("", "StartError")


def test_a_directory_that_only_root_can_reach_is_no_working_directory(cluster: Cluster) -> None:
    owner = cluster.server.data.stat().st_uid
    if owner != 0:
        pytest.skip("without root pods have the rights of the agent")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as closed:  # 0700
        inner = Path(closed, "inner")
        inner.mkdir(mode=0o755)
        (inner / "s").write_text("secret")
        container = {"workingDir": str(inner)}
        cluster.run("reaching", "sh", "-c", "ls; cat s", restartPolicy="Never", container=container)
        ended = lookup(status_of(cluster.until_ended("reaching")), "state", "terminated") or {}
        message = f"workingDir: Permission denied: {inner}"
        assert (cluster.logs("reaching"), ended.get("message")) == ("", message)
