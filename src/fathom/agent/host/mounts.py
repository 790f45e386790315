"""A container's mounts: from which path of this machine to which path in the container.

Pure, except that it creates what the spec asks for: a `subPath` of a volume that the pod writes to, a host
path "or create".

A source path has two parts: one that the agent chose, and one that the pod chose. The second is walked
without following links (`safe_files`), here and again by the process that mounts it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from fathom.agent.host.environment import Surroundings, Unresolved
from fathom.agent.safe_files import (
    Unsafe,
    closing,
    make_directories,
    make_file,
    names_in,
    open_beneath,
    open_top,
    walk,
)
from fathom.agent.variable_expansion import ExpandedTooLong, expand
from fathom.model.objects import Obj, lookup

# The agent keeps writing to these, so pods may not: kubelet mounts them read-only too.
OURS = ("configMap", "secret", "projected", "downwardAPI")
MESSAGE, HOSTS, RESOLV = "/dev/termination-log", "/etc/hosts", "/etc/resolv.conf"
ROOT = Path("/")
PATH_SHOWN = 200  # Characters, in messages.


class Mount(msgspec.Struct, frozen=True):
    top: Path  # Chosen by the agent; no pod can replace a part of it.
    to: str
    read_only: bool = False
    below: str = ""  # In `top`; walked without following links.
    own: bool = False  # The pod's own volume: mount points of other volumes may be made in it.

    @property
    def source(self) -> Path:
        return self.top / self.below


class PodPaths(msgspec.Struct, frozen=True):
    """Paths of the pod's files."""

    volumes: Path  # The pod's, each in a directory of its name.
    message: Path  # The termination message.
    hosts: Path | None = None  # The pod's own /etc/hosts.
    hide: tuple[str, ...] = ()  # Paths that no pod may see.
    resolv: Path | None = None  # The pod's own /etc/resolv.conf.


def mounts_of(container: Obj, around: Surroundings, env: Mapping[str, str], paths: PodPaths) -> list[Mount]:
    """Raises `Unresolved`."""
    volumes = {volume["name"]: volume for volume in lookup(around.pod, "spec", "volumes") or ()}
    mounts = []
    for mount in container.get("volumeMounts") or ():
        if mount["name"] not in volumes:
            raise Unresolved(f'the pod has no volume "{mount["name"]}"')
        mounts.append(_mount(mount, volumes[mount["name"]], env, paths, str(container.get("name"))))
    message_path = _where(str(container.get("terminationMessagePath") or MESSAGE), "terminationMessagePath")
    for source, to in ((paths.hosts, HOSTS), (paths.resolv, RESOLV)):
        if source is not None and not any(mount.to == to for mount in mounts):
            mounts.append(Mount(source, to, read_only=True))
    return [*mounts, Mount(paths.message, message_path)]


def _mount(mount: Obj, volume: Obj, env: Mapping[str, str], paths: PodPaths, container: str) -> Mount:
    to = _where(mount["mountPath"], "mountPath")
    read_only = bool(mount.get("readOnly")) or any(kind in volume for kind in OURS)
    own = "emptyDir" in volume and not read_only
    try:
        below = str(mount.get("subPath") or expand(str(mount.get("subPathExpr") or ""), env))
    except ExpandedTooLong as error:
        raise Unresolved(f"subPathExpr of mount {to} {error}") from None
    if host := volume.get("hostPath"):
        top, whole = ROOT, _of_host(host, paths)
    else:
        top, whole = paths.volumes, str(mount["name"])
    try:
        _find_or_make(top, whole, below, may_make="emptyDir" in volume or "hostPath" in volume)
        return Mount(top, to, read_only, "/".join([whole, *names_in(below)]), own)
    except FileNotFoundError:
        raise Unresolved(f'volume "{mount["name"]}": {below or whole} does not exist') from None
    except OSError as error:
        message = f'failed to prepare subPath for volumeMount "{mount["name"]}" of container "{container}"'
        raise Unresolved(f'{message}: subPath "{below[:PATH_SHOWN]}": {error.strerror}') from None


def _where(path: str, field: str) -> str:
    to = os.path.normpath("/" + path.lstrip("/"))
    if to == "/":
        raise Unresolved(f"{field} {path}: nothing can be mounted over a container's root")
    return to


def _find_or_make(top: Path, whole: str, below: str, *, may_make: bool) -> None:
    """Find the path, or create it with the volume's own rights: who may write to the volume may write
    there."""
    names = names_in(below)
    with closing(open_top(top)) as fd, closing(open_beneath(fd, whole)) as volume:
        rights = os.fstat(volume)
        if names and may_make and stat.S_ISDIR(rights.st_mode):
            place = make_directories(volume, names, mode=rights.st_mode & 0o7777, gid=rights.st_gid)
        else:
            place = walk(volume, names)
        os.close(place)


# Host paths.


def _of_host(host: Obj, paths: PodPaths) -> str:
    """The path below the machine's root, without links: the machine's links are resolved here, once, and the
    path found is mounted, or nothing."""
    try:
        path, kind = Path(host["path"]).resolve(), str(host.get("type") or "")
    except (OSError, RuntimeError, ValueError) as error:
        raise Unresolved(f"hostPath {host['path']}: {error}") from None
    for hidden in map(Path, paths.hide):
        if path.is_relative_to(hidden) or hidden.is_relative_to(path):
            raise Unresolved(f"hostPath {path} is not allowed: it holds the server's own files")
    try:
        _check_kind(path, kind)
    except FileNotFoundError:
        raise Unresolved(f"hostPath type check failed: {path} does not exist") from None
    except Unsafe as error:
        raise Unresolved(f"hostPath {path}: {error.strerror}") from None
    return str(path.relative_to(ROOT))


def _check_kind(path: Path, kind: str) -> None:
    """Check that it exists and is of the type in the spec; create it first if the spec says so."""
    names = path.parts[1:]
    with closing(open_top(ROOT)) as root:
        if kind == "DirectoryOrCreate":
            os.close(make_directories(root, names, mode=0o755))
        elif kind == "FileOrCreate" and names:
            with closing(walk(root, names[:-1])) as directory:
                make_file(directory, names[-1], mode=0o644)
        with closing(walk(root, names)) as fd:
            mode = os.fstat(fd).st_mode
    is_right = KINDS.get(kind.removesuffix("OrCreate"))
    if is_right is not None and not is_right(mode):
        raise Unresolved(f"hostPath type check failed: {path} is not a {kind.removesuffix('OrCreate')}")


KINDS: dict[str, Callable[[int], bool]] = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}
