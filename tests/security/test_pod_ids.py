"""The users and groups that a pod names are its own: never those of the machine, nor of another pod."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.living import Cluster, enclosed, is_root, lives, pid_of, status_of
from tests.clients.running import ordinary_account
from tests.security.pod_clusters import account_without_mounts
from tests.security.pod_hosts import (
    ORDINARY,
    SECRET,
    attempt,
    ids_on_the_host,
    open_directory,
    pods_run_by,
    refusal,
    root_of,
    secret_file,
)

from fathom.model.objects import Obj, lookup

pytestmark = [enclosed, pytest.mark.skipif(not is_root(), reason="only root can give pods ids of their own")]

SHADOW = Path("/etc/shadow")
HOST_USER, HOST_GROUP = 4243, 4242
OF_PODS = 0x71000000  # Ids below are those of the machine.


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pods_run_by(None) as made:
        yield made


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with open_directory() as made:
        yield made


def context(**fields: object) -> Obj:
    return {"securityContext": fields}


# The machine's groups.


@pytest.mark.parametrize("field", ["supplementalGroups", "runAsGroup", "fsGroup"])
def test_no_group_of_the_machine_is_had_by_naming_it(cluster: Cluster, place: Path, field: str) -> None:
    name = field.lower()
    file = secret_file(place, name, gid=HOST_GROUP, mode=0o640)
    value = [HOST_GROUP] if field == "supplementalGroups" else HOST_GROUP
    said = attempt(cluster, name, f"id -G; cat {file}", **context(**{field: value}))
    assert SECRET not in said
    assert (str(HOST_GROUP) in said.split(), said.endswith("over\n")) == (True, True)


def test_no_group_of_the_machine_is_had_by_a_containers_own_context(cluster: Cluster, place: Path) -> None:
    file = secret_file(place, "own", gid=HOST_GROUP, mode=0o640)
    said = attempt(cluster, "own", f"cat {file}", container=context(runAsGroup=HOST_GROUP))
    assert (SECRET in said, said.endswith("over\n")) == (False, True)


@pytest.mark.skipif(
    not SHADOW.exists() or SHADOW.stat().st_mode & 0o040 == 0, reason="no group may read /etc/shadow here"
)
def test_passwords_are_not_read_by_their_group(cluster: Cluster) -> None:
    group = SHADOW.stat().st_gid
    groups = context(supplementalGroups=[group], runAsGroup=group, fsGroup=group)
    said = attempt(cluster, "shadow", f"cat {SHADOW}", **groups)
    assert ("root:" in said, said.endswith("over\n")) == (False, True)


def test_a_volume_of_an_fs_group_gives_no_file_to_a_group_of_the_machine(
    cluster: Cluster, place: Path
) -> None:
    script = "cp /bin/cat /room/cat; chmod 2755 /room/cat; sleep 300"
    mount = {"volumeMounts": [{"name": "room", "mountPath": "/room"}]}
    probe = {"exec": {"command": ["test", "-g", "/room/cat"]}, "periodSeconds": 1}
    cluster.run(
        "room", "sh", "-c", script, volumes=[{"name": "room", "emptyDir": {}}],
        container={**mount, "readinessProbe": probe}, **context(fsGroup=HOST_GROUP),
    )  # fmt: skip
    pod = cluster.until_ready("room")
    room = cluster.server.data / f"agents/n1/pods/{pod['metadata']['uid']}/volumes/room"
    assert min(room.stat().st_gid, (room / "cat").stat().st_gid) >= OF_PODS
    assert room.stat().st_gid == (room / "cat").stat().st_gid


# The machine's users.


@pytest.mark.parametrize("user", [HOST_USER, 0])
def test_no_user_of_the_machine_is_had_by_naming_it(cluster: Cluster, place: Path, user: int) -> None:
    file = secret_file(place, f"user-{user}", uid=user, mode=0o600)
    said = attempt(cluster, f"user-{user}", f"id -u; cat {file}", **context(runAsUser=user))
    assert SECRET not in said
    assert (said.split()[0], said.endswith("over\n")) == (str(user), True)


def test_the_root_of_a_pod_has_no_right_of_roots(cluster: Cluster, place: Path) -> None:
    script = (
        "grep CapEff /proc/self/status; mount -t tmpfs none /mnt && echo did-mount;"
        f"chroot / true && echo did-chroot; touch {place}/made && echo did-write;"
        "unshare -U true && echo did-unshare; hostname other && echo did-name"
    )
    said = attempt(cluster, "pod-root", script, **context(runAsUser=0, runAsGroup=0))
    assert said.split()[1].strip("0") == ""
    assert "did-" not in said


def test_a_pod_that_names_nobody_is_nobody_of_the_machine(cluster: Cluster) -> None:
    cluster.run("nobody", "sleep", "300", **context(runAsNonRoot=True))
    found = ids_on_the_host(pid_of(cluster.until_ready("nobody")))
    assert min(found["Uid"] + found["Gid"]) >= OF_PODS
    assert all(group >= OF_PODS for group in found["Groups"])


@pytest.mark.parametrize("field", ["runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"])
@pytest.mark.parametrize("number", [65_536, 2_147_483_647])
def test_an_id_beyond_a_pods_own_is_refused_by_name(cluster: Cluster, field: str, number: int) -> None:
    value = [number] if field == "supplementalGroups" else number
    said = refusal(cluster, f"beyond-{field.lower()}-{number}", **context(**{field: value}))
    assert said.startswith("CreateContainerConfigError: ")
    assert f"securityContext.{field}" in said
    assert str(number) in said
    assert "65535" in said


def test_who_must_not_be_root_and_asks_for_it_is_refused(cluster: Cluster) -> None:
    said = refusal(cluster, "not-root", **context(runAsNonRoot=True, runAsUser=0))
    assert said.startswith("CreateContainerConfigError: container's runAsUser breaks non-root policy")
    mixed = refusal(cluster, "not-root-here", container=context(runAsNonRoot=True), **context(runAsUser=0))
    assert "breaks non-root policy" in mixed


# Other pods.


def test_pods_that_name_the_same_user_are_different_ones(cluster: Cluster) -> None:
    who = context(runAsUser=1000, runAsGroup=1000, fsGroup=1000)
    mount = {"volumeMounts": [{"name": "room", "mountPath": "/room"}]}
    env = {"env": [{"name": "PIN", "value": SECRET}]}
    cluster.run(
        "victim", "sh", "-c", f"umask 077; echo '{SECRET}' > /room/file; exec sleep 300",
        volumes=[{"name": "room", "emptyDir": {}}], container={**mount, **env}, **who,
    )  # fmt: skip
    victim = cluster.until_ready("victim")
    pid = pid_of(victim)
    room = cluster.server.data / f"agents/n1/pods/{victim['metadata']['uid']}/volumes/room/file"
    script = (
        f"kill -TERM {pid}; kill -0 {pid} && echo signalled; cat /proc/{pid}/environ; cat {room};"
        f"cat {root_of(pid)}{room}; cat {root_of(pid)}/room/file; ls /proc/{pid}/fd && echo looked"
    )
    said = attempt(cluster, "attacker", script, **who)
    assert SECRET not in said
    assert not {"signalled", "looked"} & set(said.split())
    assert lives(pid)


def test_no_two_pods_have_an_id_in_common_and_an_agent_that_comes_back_keeps_them(cluster: Cluster) -> None:
    names = [f"same-{number}" for number in range(3)]
    for name in names:
        cluster.run(name, "sleep", "300", **context(runAsUser=1000, runAsGroup=7, supplementalGroups=[9]))
    pids = {name: pid_of(cluster.until_ready(name)) for name in names}
    before = {name: ids_on_the_host(pid) for name, pid in pids.items()}
    ranges = {name: {one >> 16 for ids in found.values() for one in ids} for name, found in before.items()}
    assert [len(found) for found in ranges.values()] == [1, 1, 1]
    assert len(set.union(*ranges.values())) == 3
    cluster.agent.end(signal.SIGKILL)
    cluster.agent.start()
    os.kill(pids["same-0"], signal.SIGKILL)
    again = cluster.until(
        "same-0", lambda pod: status_of(pod).get("restartCount") == 1 and status_of(pod)["ready"]
    )
    assert ids_on_the_host(pid_of(again)) == before["same-0"]
    cluster.run("same-3", "sleep", "300")
    newcomer = ids_on_the_host(pid_of(cluster.until_ready("same-3")))
    assert newcomer["Uid"][0] >> 16 not in set.union(*ranges.values())


# Everything that runs in a pod.


def test_every_container_hook_and_probe_has_the_ids_of_its_container(cluster: Cluster) -> None:
    tell = "id -u; id -g; id -G"
    room = {"volumeMounts": [{"name": "room", "mountPath": "/room"}]}
    first = {
        "name": "first", "image": "x", "command": ["sh", "-c", f"({tell}) > /room/first"], **room,
        **context(runAsUser=11),
    }  # fmt: skip
    probe = {
        "exec": {"command": ["sh", "-c", f"({tell}) > /room/probe; [ -s /room/hook ]"]},
        "periodSeconds": 1,
    }
    hook = {"postStart": {"exec": {"command": ["sh", "-c", f"({tell}) > /room/hook"]}}}
    main = {"readinessProbe": probe, "lifecycle": hook, **room, **context(runAsUser=12, runAsGroup=13)}
    cluster.run(
        "whole", "sh", "-c", f"({tell}) > /room/main; sleep 300", initContainers=[first], container=main,
        volumes=[{"name": "room", "emptyDir": {}}], **context(runAsUser=10, runAsGroup=14, fsGroup=15),
    )  # fmt: skip
    pod = cluster.until_ready("whole")
    written = cluster.server.data / f"agents/n1/pods/{pod['metadata']['uid']}/volumes/room"
    said = {name: (written / name).read_text().split() for name in ("first", "main", "hook", "probe")}
    assert said == {
        "first": ["11", "14", "14", "15"],
        "main": ["12", "13", "13", "15"],
        "hook": ["12", "13", "13", "15"],
        "probe": ["12", "13", "13", "15"],
    }
    owners = {name: (written / name).stat().st_uid for name in said}
    assert min(owners.values()) >= OF_PODS
    assert owners["main"] == owners["hook"] == owners["probe"] == owners["first"] + 1


# What an operator allows.


def test_ids_of_the_machine_that_the_operator_names_are_had_and_no_others(place: Path) -> None:
    group = secret_file(place, "allowed-group", gid=HOST_GROUP, mode=0o640)
    user = secret_file(place, "allowed-user", uid=HOST_USER, mode=0o600)
    other = secret_file(place, "other-group", gid=HOST_GROUP + 1, mode=0o640)
    with pods_run_by(None, "--allow-host-ids", f"uid:{HOST_USER},gid:{HOST_GROUP}") as cluster:
        groups = context(supplementalGroups=[HOST_GROUP, HOST_GROUP + 1])
        assert SECRET in attempt(cluster, "group", f"cat {group}", **groups)
        assert SECRET not in attempt(cluster, "other", f"cat {other}", **groups)
        assert SECRET in attempt(cluster, "user", f"cat {user}", **context(runAsUser=HOST_USER))
        assert SECRET not in attempt(cluster, "nobody", f"cat {user} {group} {other}")


# Where nothing may be mounted.


@pytest.fixture(scope="module")
def unmounted(place: Path) -> Iterator[Cluster]:
    """As in many containers: root, that may not mount anything."""
    with pods_run_by(None, account=account_without_mounts(place)) as made:
        yield made


@pytest.mark.parametrize("ids", [{}, {"runAsUser": 1000, "fsGroup": HOST_GROUP}], ids=["none", "some"])
def test_where_nothing_is_mounted_pods_have_ids_and_files_of_their_own_too(
    unmounted: Cluster, place: Path, ids: Obj
) -> None:
    kind = "named" if ids else "plain"
    mount = {"volumeMounts": [{"name": "room", "mountPath": "/room"}]}
    volumes = [{"name": "room", "emptyDir": {}}]
    unmounted.run(f"has-{kind}", "sh", "-c", f"echo '{SECRET}' > room/file; touch done; sleep 300",
                  volumes=volumes, container=mount, **context(**ids))  # fmt: skip
    pod = unmounted.until_ready(f"has-{kind}")
    there = Path(os.readlink(f"/proc/{pid_of(pod)}/cwd"))
    unmounted.until(f"has-{kind}", lambda pod: (there / "done").exists())
    room = (there / "room").resolve()
    assert (room / "file").read_text() == f"{SECRET}\n"
    file = secret_file(place, f"unmounted-{kind}", gid=HOST_GROUP, mode=0o640)
    key = unmounted.server.data / "pki/ca.key"
    script = f"cat {room}/file {file} {key}; touch {room}/mine; ls {room}; ls {there.parent.parent}; id -u"
    said = attempt(unmounted, f"wants-{kind}", script, **context(**ids))
    assert (SECRET in said, "PRIVATE KEY" in said, said.endswith("over\n")) == (False, False, True)
    assert not (room / "mine").exists()
    assert said.split()[-2] == "1000" if ids else int(said.split()[-2]) >= OF_PODS


# Without root.


def test_without_root_an_agent_tells_that_its_groups_are_its_pods_too() -> None:
    script = "from fathom.agent.host.machine import find_rights; print(find_rights((), allow_root=False)[1])"
    account = ordinary_account(ORDINARY)
    if account is None:
        pytest.skip("an ordinary user can run no Python that has our packages")
    who = {**account.options, "extra_groups": [HOST_GROUP]}
    said = subprocess.check_output([account.python, "-c", script], text=True, **who)
    assert said == f"pods run with all groups of the agent's user: [{HOST_GROUP}]\n"


@pytest.fixture(scope="module")
def rootless() -> Iterator[Cluster]:
    with pods_run_by(ORDINARY) as made:
        yield made


@pytest.mark.parametrize("field", ["runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"])
def test_without_root_an_id_that_is_not_the_agents_is_refused(rootless: Cluster, field: str) -> None:
    value = [HOST_GROUP] if field == "supplementalGroups" else HOST_GROUP
    said = refusal(rootless, f"rootless-{field.lower()}", **context(**{field: value}))
    assert said.startswith("CreateContainerConfigError: ")
    assert f"securityContext.{field}" in said
    assert str(HOST_GROUP) in said
    assert str(ORDINARY) in said


def test_without_root_a_pod_runs_as_the_agent_if_it_asks_for_that_or_for_nothing(rootless: Cluster) -> None:
    own = context(runAsUser=ORDINARY, runAsGroup=ORDINARY, fsGroup=ORDINARY, supplementalGroups=[ORDINARY])
    assert attempt(rootless, "rootless-own", "id -u", **own).split()[0] == str(ORDINARY)
    assert attempt(rootless, "rootless-any", "id -u").split()[0] == str(ORDINARY)


def test_without_root_passwords_are_not_read(rootless: Cluster) -> None:
    assert "root:" not in attempt(rootless, "rootless-shadow", f"cat {SHADOW}")


def test_without_root_a_containers_own_user_is_refused_too(rootless: Cluster) -> None:
    said = refusal(rootless, "rootless-container", container=context(runAsUser=0))
    assert said.startswith("CreateContainerConfigError: spec.containers[main].securityContext.runAsUser")
    state = lookup(rootless.pod("rootless-container"), "status", "phase")
    assert state == "Pending"
