"""The shim's input: command line, environment, rights, limits and mounts of one run.

Pure but for the directories that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fathom.agent.host.environment import Surroundings, Unresolved, environment, hostname_of
from fathom.agent.host.ids import HostIds, Identity, identity_of, ids_of_agent, may_bind_low
from fathom.agent.host.images import Image
from fathom.agent.host.limits import Fence
from fathom.agent.host.mounts import PodPaths, mounts_of
from fathom.agent.runtime import Launch
from fathom.agent.variable_expansion import ExpandedTooLong, expand_all
from fathom.model.objects import Obj, lookup
from fathom.open_files import given

HOME = "/pod"  # As in `mount_namespace`.
LOG_BYTES, LOG_FILES = 10 * 1024 * 1024, 5  # kubelet's.


class Rights(msgspec.Struct, frozen=True):
    """What the agent itself may do, tested at its start."""

    root: bool
    enclosing: bool  # Mount namespaces work here.
    hide: tuple[str, ...] = ()  # Paths that no pod may see.
    places: str = ""  # For pods' files, if mount namespaces do not work but pods have own users.
    host_ids: HostIds = HostIds()  # Ids of the machine that pods may use.
    user_namespaces: bool = False  # With as many users as a pod has.


class Settled(msgspec.Struct, frozen=True):
    """All values of one run, before its shim spec is written."""

    launch: Launch
    container: Obj
    argv: list[str]
    image: Image | None
    around: Surroundings
    pod_dir: Path
    run_dir: Path
    fence: Fence
    rights: Rights
    identity: Identity | None
    boot: str
    log_bytes: int = LOG_BYTES
    resolv: Path | None = None  # The pod's own /etc/resolv.conf, if its spec needs one.


def identity_for(pod: Obj, container: Obj, first: int, rights: Rights) -> Identity | None:
    """The ids it runs as; None: the agent's, because it is not root. Raises `Unresolved`."""
    if not rights.root:
        ids_of_agent(pod, container)
        return None
    if not first:  # From 0 its ids would be those of the machine.
        raise Unresolved("the pod has no user ids of its own yet")
    return identity_of(
        pod, container, first, rights.host_ids,
        namespaces=rights.user_namespaces, own_group=bool(rights.places),
    )  # fmt: skip


def capabilities_of(container: Obj, identity: Identity | None) -> str:
    """See `confine`. Only root can pass capabilities on, and they count only outside a user namespace."""
    if identity is not None and identity.host_uid == 0:
        return "all"
    low = identity is not None and not identity.uid_map and may_bind_low(container)
    return "low_ports" if low else "none"


def grounds_of(settled: Settled) -> PodPaths:
    own_hosts = settled.rights.enclosing and not lookup(settled.around.pod, "spec", "hostNetwork")
    return PodPaths(
        settled.pod_dir / "volumes",
        settled.run_dir / "message",
        settled.pod_dir / "hosts" if own_hosts else None,
        settled.rights.hide,
        settled.resolv if settled.rights.enclosing else None,
    )


def expanded_words(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Raises `Unresolved`."""
    try:
        return expand_all(argv, env)
    except ExpandedTooLong as error:
        raise Unresolved(f"the command {error}") from None


def shim_spec(settled: Settled) -> dict[str, Any]:
    """Raises `Unresolved`."""
    container, around, rights = settled.container, settled.around, settled.rights
    home = settled.pod_dir / "home" / container["name"]
    env = {
        **(settled.image.env if settled.image is not None else {}),
        **environment(container, around),
    }
    env.setdefault("HOME", HOME if rights.enclosing else str(home))
    identity = settled.identity
    mounts = [
        {"top": str(mount.top), "below": mount.below, "to": mount.to, "ro": mount.read_only, "own": mount.own}
        for mount in mounts_of(container, around, env, grounds_of(settled))
    ]
    working = container.get("workingDir") or (settled.image.working_dir if settled.image is not None else "")
    launch = settled.launch
    return {
        "argv": expanded_words(settled.argv, env),
        "env": env,
        "cwd": working or (HOME if rights.enclosing else str(home)),
        "directory": str(settled.run_dir),
        "lock": str(settled.run_dir.parent / "lock"),
        "log": str(settled.run_dir / "log"),
        "log_bytes": settled.log_bytes,
        "log_files": LOG_FILES,
        "uid": identity.uid if identity is not None else None,
        "gid": identity.gid if identity is not None else None,
        "groups": list(identity.groups) if identity is not None else [],
        "users": {"uid_map": identity.uid_map, "gid_map": identity.gid_map}
        if identity is not None and identity.uid_map
        else None,
        "capabilities": capabilities_of(container, identity),
        "execs": True,  # Anybody with the permission may run commands in it, at any time.
        "stdin": bool(container.get("stdin")),
        "stdin_once": bool(container.get("stdinOnce")),
        "terminal": bool(container.get("tty")),
        "no_new_privileges": True,
        "rlimits": settled.fence.rlimits,
        "files": given(),
        "cgroups": list(settled.fence.groups),
        "oom": settled.fence.oom,
        "peak": settled.fence.peak,
        "processes": settled.fence.processes,
        "memory_bytes": settled.fence.memory_bytes,
        "message": str(settled.run_dir / "message"),
        "fallback": container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        "record": {
            "uid": around.pod["metadata"]["uid"],
            "container": container["name"],
            "attempt": launch.attempt,
            "crashes": launch.crashes,
            "boot": settled.boot,
            "image": str(container.get("image") or ""),
        },
        "mounts": mounts,  # For the driver, if mount namespaces do not work.
        "enclose": {
            "userns": not rights.root,
            "stage": str(settled.run_dir / "root"),
            "home": str(home),
            "hostname": "" if lookup(around.pod, "spec", "hostNetwork") else hostname_of(around.pod),
            "hide": list(rights.hide),
            "mounts": mounts,
        }
        if rights.enclosing
        else None,
    }  # fmt: skip
