"""As whom containers run, and which pod has which ids: objects and directories in, numbers out."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import msgspec
import pytest

from fathom.agent.host.environment import Unresolved
from fathom.agent.host.idranges import RANGES, IdRanges
from fathom.agent.host.ids import (
    IDS_FROM,
    IDS_PER_POD,
    NOBODY_ASKED,
    HostIds,
    Identity,
    fs_group_of,
    identity_of,
    ids_of_agent,
    parse_host_ids,
)
from fathom.agent.host.launch import Rights, capabilities_of
from fathom.agent.host.machine import has_pod_ids, pods_can_start
from fathom.model.objects import Obj

FIRST = IDS_FROM + 7 * IDS_PER_POD
WHOLE = f"0 {FIRST} {IDS_PER_POD}"


def pod(container: Obj | None = None, **context: object) -> Obj:
    main = {"name": "main", **(container or {})}
    meta = {"name": "p", "namespace": "default", "uid": "u1"}
    return {"metadata": meta, "spec": {"containers": [main], "securityContext": context}}


def identity(of: Obj, allowed: HostIds | None = None, *, namespaces: bool = True) -> Identity:
    return identity_of(of, of["spec"]["containers"][0], FIRST, allowed or HostIds(), namespaces=namespaces)


def test_a_pod_that_names_nobody_has_the_machines_numbers_of_its_own_ids() -> None:
    own = FIRST + NOBODY_ASKED
    assert identity(pod()) == Identity(own, own, (), own, own)


def test_a_pod_that_names_ids_sees_them() -> None:
    found = identity(pod(runAsUser=1000, runAsGroup=7, fsGroup=9, supplementalGroups=[8, 9]))
    assert found == Identity(1000, 7, (8, 9), FIRST + 1000, FIRST + 7, WHOLE, WHOLE)


def test_where_there_are_no_user_namespaces_a_pod_has_its_own_ids_all_the_same() -> None:
    found = identity(pod(runAsUser=1000, supplementalGroups=[8]), namespaces=False)
    assert found == Identity(FIRST + 1000, FIRST + 1000, (FIRST + 8,), FIRST + 1000, FIRST + 1000)


@pytest.mark.parametrize(
    ("container", "low"),
    [
        ({"ports": [{"containerPort": 80}]}, True),
        ({"ports": [{"containerPort": 8080}]}, False),
        ({"readinessProbe": {"httpGet": {"port": 80}}}, True),
        ({"livenessProbe": {"tcpSocket": {"port": "web"}}}, False),
        ({"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}}, True),
        ({"ports": [{"containerPort": 80}], "securityContext": {"capabilities": {"drop": ["ALL"]}}}, False),
    ],
)
def test_who_says_that_it_binds_low_ports_may_and_sees_the_machines_numbers(
    container: Obj, low: bool
) -> None:
    of = pod(container, runAsUser=1000)
    found = identity(of)
    assert (found.uid_map == "", found.host_uid) == (low, FIRST + 1000)
    assert capabilities_of(of["spec"]["containers"][0], found) == ("low_ports" if low else "none")


def test_ids_that_the_operator_allows_stay_the_machines() -> None:
    allowed = parse_host_ids("uid:1000, gid:44,gid:70000")
    found = identity(pod(runAsUser=1000, supplementalGroups=[44, 45, 70000]), allowed)
    assert (found.host_uid, found.host_gid) == (1000, FIRST + 1000)
    assert found.uid_map.splitlines() == [
        f"0 {FIRST} 1000", "1000 1000 1", f"1001 {FIRST + 1001} {IDS_PER_POD - 1001}"
    ]  # fmt: skip
    assert found.gid_map.splitlines() == [
        f"0 {FIRST} 44", "44 44 1", f"45 {FIRST + 45} {IDS_PER_POD - 45}", "70000 70000 1"
    ]  # fmt: skip
    assert fs_group_of(pod(fsGroup=44), FIRST, allowed) == 44
    assert fs_group_of(pod(fsGroup=45), FIRST, allowed) == FIRST + 45
    assert fs_group_of(pod(), FIRST, allowed) is None


def test_an_id_that_is_allowed_and_not_asked_for_is_not_in_the_map() -> None:
    assert identity(pod(runAsUser=5), HostIds(frozenset({1000}), frozenset({44}))).uid_map == WHOLE


def test_root_of_the_machine_is_had_only_by_name() -> None:
    allowed = parse_host_ids("uid:0,gid:0")
    of = pod(runAsUser=0)
    assert identity(of, allowed) == Identity(0, 0, (), 0, 0)
    assert capabilities_of({}, identity(of, allowed)) == "all"
    assert identity(of).host_uid == FIRST
    assert capabilities_of({}, identity(of)) == "none"


@pytest.mark.parametrize("words", ["user:5", "uid:", "uid:-1", "uid:x", "1000", f"gid:{IDS_FROM}"])
def test_ids_that_cannot_be_read_are_named(words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_host_ids(f"uid:1,{words}")


def test_without_root_the_message_says_which_field_and_who_the_agent_is() -> None:
    of = pod(supplementalGroups=[os.getgid(), 4242])
    words = (
        "spec.securityContext.supplementalGroups: 4242 is refused: the agent does not run as root, so its "
        f"pods can only run as its own user {os.getuid()} and group {os.getgid()}"
    )
    with pytest.raises(Unresolved, match=f"^{words}$"):
        ids_of_agent(of, of["spec"]["containers"][0])


@pytest.mark.parametrize(
    ("uid_map", "has"),
    [
        ("         0          0 4294967295\n", True),
        ("0 1000 1\n1 100000 65536\n", False),
        (f"0 100000 65536\n{IDS_FROM} {IDS_FROM} {0x7FFE0000 - IDS_FROM}\n", True),
    ],
)
def test_root_of_a_small_container_has_no_ids_to_give(uid_map: str, has: bool) -> None:
    assert has_pod_ids(uid_map) is has


# Ranges.


def record(pod_dir: Path, ids: int) -> None:
    pod_dir.mkdir(parents=True, exist_ok=True)
    (pod_dir / "pod.json").write_bytes(msgspec.json.encode({"pod": {}, "ip": "", "ids": ids}))


def claimed(ranges: IdRanges, pod_dir: Path) -> int:
    return ranges.claim(pod_dir, lambda ids: record(pod_dir, ids))


def test_no_two_pods_get_the_same_range_and_what_is_released_goes_last(tmp_path: Path) -> None:
    ranges = IdRanges((tmp_path / "ids",))
    pods = [tmp_path / name for name in ("a", "b", "c")]
    found = [claimed(ranges, pod_dir) for pod_dir in pods]
    assert len(set(found)) == 3
    assert all((ids - IDS_FROM) % IDS_PER_POD == 0 for ids in found)
    ranges.release(found[0], pods[0])
    assert claimed(ranges, tmp_path / "d") not in found


def test_a_range_whose_pod_has_no_such_record_is_given_away_again(tmp_path: Path) -> None:
    ranges, killed = IdRanges((tmp_path / "ids",)), tmp_path / "killed"
    lost = ranges.claim(killed, lambda ids: None)
    (tmp_path / "ids/last").write_text(str((lost - IDS_FROM) // IDS_PER_POD - 1))
    assert claimed(ranges, tmp_path / "next") == lost
    assert not ranges.hold(lost, killed)
    assert ranges.hold(lost, tmp_path / "next")


def test_a_range_that_is_released_by_somebody_else_stays(tmp_path: Path) -> None:
    ranges = IdRanges((tmp_path / "ids",))
    ids = claimed(ranges, tmp_path / "a")
    ranges.release(ids, tmp_path / "b")
    assert (tmp_path / f"ids/{ids:x}").read_text() == str(tmp_path / "a")


def test_a_lost_directory_of_ranges_is_filled_again_by_the_agents_that_come_back(tmp_path: Path) -> None:
    ids = claimed(IdRanges((tmp_path / "ids",)), tmp_path / "a")
    other = IdRanges((tmp_path / "elsewhere",))
    assert other.hold(ids, tmp_path / "a")
    (tmp_path / "elsewhere/last").write_text(str((ids - IDS_FROM) // IDS_PER_POD - 1))
    assert claimed(other, tmp_path / "b") != ids


@pytest.mark.slow
def test_when_all_are_taken_it_is_said(tmp_path: Path) -> None:
    place = tmp_path / "ids"
    claimed(IdRanges((place,)), tmp_path / "a")
    for number in range(RANGES):
        ids = IDS_FROM + number * IDS_PER_POD
        record(tmp_path / f"full-{number}", ids)
        (place / f"{ids:x}").write_text(str(tmp_path / f"full-{number}"))
    with pytest.raises(RuntimeError, match=f"all {RANGES} ranges of user ids for pods are taken"):
        claimed(IdRanges((place,)), tmp_path / "b")


@pytest.mark.live
def test_agents_that_claim_at_the_same_time_get_different_ranges(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.starmap(_claim_some, [(tmp_path, name) for name in "abcd"])
    every = [ids for some in found for ids in some]
    assert len(every) == len(set(every)) == 40


def _claim_some(place: Path, name: str) -> list[int]:
    ranges = IdRanges((place / "ids",))
    return [claimed(ranges, place / f"{name}-{number}") for number in range(10)]


@pytest.mark.parametrize(
    ("rights", "starts"),
    [
        (Rights(root=False, enclosing=False), True),
        (Rights(root=True, enclosing=True), True),
        (Rights(root=True, enclosing=False, places="pods"), True),
        (Rights(root=True, enclosing=False), False),
    ],
)
def test_root_starts_no_pod_whose_files_it_cannot_hide(rights: Rights, starts: bool) -> None:
    assert pods_can_start(rights, uid_map="0 0 4294967295") is starts


def test_root_starts_no_pod_without_users_for_pods() -> None:
    assert not pods_can_start(Rights(root=True, enclosing=True), uid_map="0 1000 1")
