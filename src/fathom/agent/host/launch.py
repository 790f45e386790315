"""What the shim is told: the words to run, with which environment, rights, limits and view of the files. Pure
but for the directories that it makes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from fathom.agent.expanding import expand
from fathom.agent.host.environment import Surroundings, Unresolved, environment, hostname_of
from fathom.agent.host.images import Image
from fathom.agent.host.limits import Fence
from fathom.agent.host.mounts import Grounds, mounts_of
from fathom.agent.runtime import Launch
from fathom.model.objects import Obj, lookup
from fathom.open_files import given

HOME = "/pod"  # As `enclose` has it.
LOG_BYTES, LOG_FILES = 10 * 1024 * 1024, 5  # kubelet's.
UIDS_FROM = 0x70000000  # Above what systems give to people and to user namespaces.


class Rights(msgspec.Struct, frozen=True):
    """What the agent itself may do, found out at its start."""

    root: bool
    enclosing: bool  # Namespaces of mounts can be had.
    hide: tuple[str, ...] = ()  # What no pod may see.
    places: str = ""  # For what pods work with, where they cannot be enclosed but have users of their own.
    allow_root: bool = False


class Settled(msgspec.Struct, frozen=True):
    """Of one run, before it is written down for the shim."""

    launch: Launch
    container: Obj
    argv: list[str]
    image: Image | None
    around: Surroundings
    pod_dir: Path
    run_dir: Path
    fence: Fence
    rights: Rights
    boot: str
    log_bytes: int = LOG_BYTES
    resolv: Path | None = None  # The pod's own /etc/resolv.conf, if it wants one.


def uid_for(ip: str) -> int:
    """One user for each pod address: pods cannot read or signal each other."""
    numbers = [int(part) for part in ip.split(".")]
    return UIDS_FROM + (numbers[1] << 16) + (numbers[2] << 8) + numbers[3]


def user_of(pod: Obj, container: Obj, ip: str, rights: Rights) -> tuple[int, int] | None:
    """As whom it runs; None: as the agent does, for want of the right to choose."""
    own = container.get("securityContext") or {}
    common = lookup(pod, "spec", "securityContext") or {}
    user = own.get("runAsUser", common.get("runAsUser"))
    group = own.get("runAsGroup", common.get("runAsGroup"))
    if not rights.root:
        if user is not None and user != os.getuid():
            raise Unresolved(f"runAsUser {user}: the agent is not root, and runs pods as user {os.getuid()}")
        return None
    if user == 0 and not rights.allow_root:
        raise Unresolved("runAsUser 0: processes of root could read the server's keys; see --allow-root")
    if not rights.enclosing and not rights.places and user is None:
        return None
    found = user if user is not None else uid_for(ip)
    return found, group if group is not None else found


def groups_of(pod: Obj) -> list[int]:
    """Beside its user's own."""
    common = lookup(pod, "spec", "securityContext") or {}
    listed = [*(common.get("supplementalGroups") or ()), common.get("fsGroup")]
    return list(dict.fromkeys(one for one in listed if one is not None))


def may_bind_low(container: Obj) -> bool:
    """Ports below 1024, as container runtimes let it unless the pod gives that up."""
    wish = (container.get("securityContext") or {}).get("capabilities") or {}
    added, dropped = (
        {str(one).upper().removeprefix("CAP_") for one in wish.get(field) or ()} for field in ("add", "drop")
    )
    return "NET_BIND_SERVICE" in added or not dropped & {"ALL", "NET_BIND_SERVICE"}


def grounds_of(settled: Settled) -> Grounds:
    own = settled.rights.enclosing and not lookup(settled.around.pod, "spec", "hostNetwork")
    return Grounds(
        settled.pod_dir / "volumes",
        settled.run_dir / "message",
        settled.pod_dir / "hosts" if own else None,
        settled.rights.hide,
        settled.resolv if settled.rights.enclosing else None,
    )


def shim_spec(settled: Settled) -> dict[str, Any]:
    """Raises `Unresolved`."""
    container, around, rights = settled.container, settled.around, settled.rights
    home = settled.pod_dir / "home" / container["name"]
    env = {
        **(settled.image.env if settled.image is not None else {}),
        **environment(container, around),
    }
    env.setdefault("HOME", HOME if rights.enclosing else str(home))
    user = user_of(around.pod, container, around.pod_ip, rights)
    mounts = [
        {"top": str(one.top), "below": one.below, "to": one.to, "ro": one.read_only, "own": one.own}
        for one in mounts_of(container, around, env, grounds_of(settled))
    ]
    working = container.get("workingDir") or (settled.image.working_dir if settled.image is not None else "")
    launch = settled.launch
    return {
        "argv": [expand(word, env) for word in settled.argv],
        "env": env,
        "cwd": working or (HOME if rights.enclosing else str(home)),
        "directory": str(settled.run_dir),
        "lock": str(settled.run_dir.parent / "lock"),
        "log": str(settled.run_dir / "log"),
        "log_bytes": settled.log_bytes,
        "log_files": LOG_FILES,
        "uid": user[0] if user is not None else None,
        "gid": user[1] if user is not None else None,
        "groups": groups_of(around.pod),
        "low_ports": may_bind_low(container),
        "no_new_privileges": True,
        "rlimits": settled.fence.rlimits,
        "files": given(),
        "cgroups": list(settled.fence.groups),
        "oom": settled.fence.oom,
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
        "mounts": mounts,  # For the driver, where nothing can be enclosed.
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
