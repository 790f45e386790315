"""Where the agent is root but may not mount: volumes are below a container's home, reached by links that the
agent makes there. The pod can write to that home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.living import Cluster, condition, status_of
from tests.security.pod_clusters import (
    init,
    mount,
    one_node,
    outside_directory,
    seen_of,
    until_refused,
    waiting,
)

from fathom.model.objects import lookup

VOLUME = {"name": "v", "emptyDir": {}}


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with one_node("unmounted") as cluster:
        yield cluster


@pytest.fixture
def cluster(node: Cluster) -> Iterator[Cluster]:
    yield node
    node.clean()


@pytest.fixture
def outside(node: Cluster) -> Iterator[Path]:
    with outside_directory(node) as place:
        (place / "site").chmod(0o700)
        yield place


def test_a_volume_is_below_the_home_and_shared(cluster: Cluster) -> None:
    cluster.run(
        "shares", "sh", "-c", "cat $HOME/deep/v/said; sleep 60", volumes=[VOLUME],
        initContainers=[init("writes", "echo hello > $HOME/v/said", mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/deep/v")]},
    )  # fmt: skip
    assert condition(cluster.until_ready("shares"), "Ready") == "True"
    assert cluster.logs("shares") == "hello\n"


@pytest.mark.parametrize("path", ["/x/new", "/x/new/deep"])
def test_links_to_volumes_are_not_made_through_links_in_the_home(
    cluster: Cluster, outside: Path, path: str
) -> None:
    """The first run puts a link in the way; the second must not start."""
    before = seen_of(outside)
    script = f"mv $HOME/x $HOME/y; ln -s {outside}/site $HOME/x; exit 1"
    cluster.run("again", "sh", "-c", script, volumes=[VOLUME], container={"volumeMounts": [mount("v", path)]})
    pod = cluster.until("again", lambda pod: "x is a symbolic link" in str(waiting(pod).get("message")))
    assert waiting(pod)["reason"] == "CreateContainerConfigError"
    assert lookup(status_of(pod), "restartCount") in {0, 1}
    assert seen_of(outside) == before


def test_a_sub_path_through_a_link_is_refused_here_too(cluster: Cluster, outside: Path) -> None:
    before = seen_of(outside)
    cluster.run(
        "makes", "true", volumes=[VOLUME], restartPolicy="Never",
        initContainers=[init("links", f"ln -s {outside}/site $HOME/v/out", mount("v", "/v"))],
        container={"volumeMounts": [mount("v", "/d", subPath="out/evil")]},
    )  # fmt: skip
    until_refused(cluster, "makes", lambda message: "out is a symbolic link" in message)
    assert seen_of(outside) == before


def test_a_host_path_leads_into_no_pods_files(cluster: Cluster) -> None:
    """They are not in the server's directory here, and the agent would make directories there as root."""
    cluster.run("hoard", "sleep", "300", volumes=[VOLUME], container={"volumeMounts": [mount("v", "/v")]})
    uid = cluster.until_ready("hoard")["metadata"]["uid"]
    (room,) = Path("/var/tmp").glob(f"fathom-pods-*/{uid}/volumes/v")
    volume = {"name": "h", "hostPath": {"path": f"{room}/evil", "type": "DirectoryOrCreate"}}
    mounts = {"volumeMounts": [mount("h", "/h")]}
    cluster.run("thief", "true", volumes=[volume], restartPolicy="Never", container=mounts)
    until_refused(cluster, "thief", lambda message: "is not allowed" in message)
    assert list(room.iterdir()) == []
