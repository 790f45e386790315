"""What a container mounts, and from where."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.objects import container, pod

from fathom.agent.host.directories import link_mounts
from fathom.agent.host.environment import Surroundings, Unresolved
from fathom.agent.host.mounts import Mount, PodPaths, mounts_of
from fathom.model.objects import Obj


def mounted(place: Path, volume: Obj, **mount: object) -> Mount:
    around = Surroundings(pod(spec={"volumes": [{"name": "v", **volume}]}), "127.130.0.2", "127.130.0.1")
    whole = container(volumeMounts=[{"name": "v", "mountPath": "/in/", **mount}])
    paths = PodPaths(place / "volumes", place / "message", hide=(str(place / "keys"),))
    first, told = mounts_of(whole, around, {"POD_NAME": "web"}, paths)
    assert told == Mount(place / "message", "/dev/termination-log")
    return first


def test_a_volume_is_mounted_whole_or_by_a_path_in_it(tmp_path: Path) -> None:
    volumes = tmp_path / "volumes"
    (volumes / "v").mkdir(parents=True)
    (volumes / "v/key").touch()
    assert mounted(tmp_path, {"emptyDir": {}}) == Mount(volumes, "/in", below="v", own=True)
    assert mounted(tmp_path, {"secret": {}}, subPath="key") == Mount(
        volumes, "/in", read_only=True, below="v/key"
    )
    assert mounted(tmp_path, {"emptyDir": {}}, subPathExpr="$(POD_NAME)//logs/") == Mount(
        volumes, "/in", below="v/web/logs", own=True
    )
    with pytest.raises(Unresolved, match='volume "v": other does not exist'):
        mounted(tmp_path, {"configMap": {}}, subPath="other")
    with pytest.raises(Unresolved, match="leads out of its volume"):
        mounted(tmp_path, {"emptyDir": {}}, subPath="a/../../b")


def test_a_host_path_is_of_the_type_it_says_and_made_where_it_says_so(tmp_path: Path) -> None:
    def host(name: str, kind: str = "") -> Mount:
        return mounted(tmp_path, {"hostPath": {"path": str(tmp_path / name), "type": kind}})

    def at(name: str) -> Mount:
        return Mount(Path("/"), "/in", below=str(tmp_path / name)[1:])

    assert host("made", "DirectoryOrCreate") == at("made")
    assert host("made/file", "FileOrCreate") == at("made/file")
    assert host("made") == host("made", "Directory") == at("made")
    assert ((tmp_path / "made").is_dir(), (tmp_path / "made/file").is_file()) == (True, True)
    for name, kind, words in (
        ("none", "", "none does not exist"),
        ("none", "Directory", "none does not exist"),
        ("made", "File", "made is not a File"),
        ("made/file", "DirectoryOrCreate", "made/file is not a Directory"),
        ("keys/x", "DirectoryOrCreate", "is not allowed: it holds the server's own files"),
    ):
        with pytest.raises(Unresolved, match=words):
            host(name, kind)


def test_a_part_of_a_host_path_is_made_with_the_rights_of_the_whole(tmp_path: Path) -> None:
    whole = tmp_path / "host"
    whole.mkdir()
    whole.chmod(0o770)
    found = mounted(tmp_path, {"hostPath": {"path": str(whole)}}, subPath="a/b")
    assert found.source == whole / "a/b"
    assert {one.stat().st_mode & 0o7777 for one in (whole / "a", whole / "a/b")} == {0o770}


def test_a_mount_of_no_volume_and_one_over_the_root_are_refused(tmp_path: Path) -> None:
    (tmp_path / "volumes/v").mkdir(parents=True)
    with pytest.raises(Unresolved, match="the pod has no volume"):
        mounted(tmp_path, {"emptyDir": {}}, name="../message")
    with pytest.raises(Unresolved, match="over a container's root"):
        mounted(tmp_path, {"emptyDir": {}}, mountPath="/x/..")


def test_a_pod_has_its_own_hosts_file_unless_it_mounts_one(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    around = Surroundings(
        pod(spec={"volumes": [{"name": "v", "emptyDir": {}}]}), "127.130.0.2", "127.130.0.1"
    )
    paths = PodPaths(tmp_path, tmp_path / "message", tmp_path / "hosts")
    hosts, told = Mount(tmp_path / "hosts", "/etc/hosts", read_only=True), Mount(tmp_path / "message", "/t")
    assert mounts_of(container(terminationMessagePath="/t"), around, {}, paths) == [hosts, told]
    own = container(terminationMessagePath="/t", volumeMounts=[{"name": "v", "mountPath": "/etc/hosts"}])
    assert mounts_of(own, around, {}, paths) == [Mount(tmp_path, "/etc/hosts", below="v", own=True), told]


def test_where_nothing_can_be_mounted_links_lead_to_the_same_places(tmp_path: Path) -> None:
    for name in ("volume", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "volume/key").write_text("1")
    for _ in range(2):  # As each run of a container does.
        link_mounts(tmp_path / "home", [{"top": str(tmp_path), "below": "volume/key", "to": "/etc/app/key"}])
    assert (tmp_path / "home/etc/app/key").read_text() == "1"
