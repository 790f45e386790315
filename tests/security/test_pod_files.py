"""A pod may not lead the agent out of the directories that are the pod's: by links, by swapping directories
while a container starts, by hard links, by pipes. On a cluster of root, and on one of an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.living import Cluster
from tests.cluster.living import until
from tests.security.pod_clusters import (
    init,
    mount,
    one_node,
    outside_directory,
    seen_of,
    until_refused,
)

VOLUME = {"name": "v", "emptyDir": {}}
shown = pytest.mark.xfail(strict=True, reason="the agent follows links that a pod has made")


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


@shown
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
@shown
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


@shown
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


@shown
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


@shown
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


@shown
def test_a_message_of_the_end_is_not_reached_through_a_volumes_links(cluster: Cluster, outside: Path) -> None:
    before = seen_of(outside)
    cluster.run(
        "message", "sh", "-c", "echo bye > /v/told", restartPolicy="Never", volumes=[VOLUME],
        initContainers=[init("links", f"ln -s {outside}/site/kept /v/told", mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/v")], "terminationMessagePath": "/v/told"},
    )  # fmt: skip
    until_refused(cluster, "message", lambda message: "/v/told: told is a symbolic link" in message)
    assert seen_of(outside) == before


@shown
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


@shown
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
