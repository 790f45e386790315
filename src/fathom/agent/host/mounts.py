"""What a container mounts: from where on this machine, to where in its view. Pure but for what the spec wants
made: a `subPath` of a volume that the pod writes to, a host path "or create"."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fathom.agent.expanding import expand
from fathom.agent.host.environment import Surroundings, Unresolved
from fathom.model.objects import Obj, lookup

# What the agent keeps writing to belongs to it alone: kubelet mounts these read-only too.
OURS = ("configMap", "secret", "projected", "downwardAPI")
MESSAGE, HOSTS, RESOLV = "/dev/termination-log", "/etc/hosts", "/etc/resolv.conf"


class Mount(msgspec.Struct, frozen=True):
    source: Path
    to: str
    read_only: bool = False


class Grounds(msgspec.Struct, frozen=True):
    """Where things are."""

    volumes: Path  # Of the pod, each in a directory by its name.
    message: Path  # What the container says as it ends.
    hosts: Path | None = None  # The pod's own /etc/hosts.
    hide: tuple[str, ...] = ()  # What no pod may see.
    resolv: Path | None = None  # The pod's own /etc/resolv.conf.


def mounts_of(container: Obj, around: Surroundings, env: Mapping[str, str], grounds: Grounds) -> list[Mount]:
    """Raises `Unresolved`."""
    volumes = {one["name"]: one for one in lookup(around.pod, "spec", "volumes") or ()}
    mounts = []
    for mount in container.get("volumeMounts") or ():
        volume = volumes.get(mount["name"]) or {}
        source = _source(mount, volume, env, grounds)
        read_only = bool(mount.get("readOnly")) or any(kind in volume for kind in OURS)
        mounts.append(Mount(source, os.path.normpath("/" + mount["mountPath"].lstrip("/")), read_only))
    told = os.path.normpath(container.get("terminationMessagePath") or MESSAGE)
    for own, to in ((grounds.hosts, HOSTS), (grounds.resolv, RESOLV)):
        if own is not None and not any(one.to == to for one in mounts):
            mounts.append(Mount(own, to, read_only=True))
    return [*mounts, Mount(grounds.message, told)]


def _source(mount: Obj, volume: Obj, env: Mapping[str, str], grounds: Grounds) -> Path:
    source = grounds.volumes / str(mount["name"])
    if host := volume.get("hostPath"):
        source = _of_host(host, grounds)
    below = str(mount.get("subPath") or expand(str(mount.get("subPathExpr") or ""), env))
    if below.startswith("/") or ".." in below.split("/"):
        raise Unresolved(f'subPath "{below}" leads out of its volume')
    if below:
        whole, source = source, source / below
        if not source.exists() and whole.is_dir() and ("emptyDir" in volume or "hostPath" in volume):
            _make_as(whole, source)
    if not source.exists():
        raise Unresolved(f'volume "{mount["name"]}": {source.name} is not there')
    return source


def _make_as(whole: Path, below: Path) -> None:
    """Whoever may write to the volume may write to this part of it."""
    found = whole.stat()
    for one in reversed([below, *below.parents]):
        if not one.exists():
            one.mkdir()
            os.chown(one, -1, found.st_gid)
            one.chmod(found.st_mode & 0o7777)


def _of_host(host: Obj, grounds: Grounds) -> Path:
    path, kind = Path(host["path"]).resolve(), str(host.get("type") or "")
    for hidden in map(Path, grounds.hide):
        if path.is_relative_to(hidden) or hidden.is_relative_to(path):
            raise Unresolved(f"hostPath {path}: the server's own files are there")
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(mode=0o755, parents=True)
    elif kind == "FileOrCreate" and not path.exists() and path.parent.is_dir():
        path.touch(mode=0o644)
    if not path.exists():
        raise Unresolved(f"hostPath {path} is not there")
    is_right = {"Directory": path.is_dir, "DirectoryOrCreate": path.is_dir, "File": path.is_file,
                "FileOrCreate": path.is_file, "Socket": path.is_socket, "CharDevice": path.is_char_device,
                "BlockDevice": path.is_block_device}.get(kind)  # fmt: skip
    if is_right is not None and not is_right():
        raise Unresolved(f"hostPath {path} is not a {kind.removesuffix('OrCreate')}")
    return path
