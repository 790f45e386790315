"""Directories and files of a pod on this machine, with the right mode and owner whatever our umask is."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from fathom.agent.host.launch import Settled
from fathom.agent.safe_files import (
    closing,
    make_directories,
    names_in,
    open_top,
    remove_path,
    set_rights_of_place,
    write_file,
)
from fathom.model.objects import Obj


def make_places(pod_dir: Path, run_dir: Path, container: Obj, user: tuple[int, int] | None) -> None:
    """Create a container's own directories, owned by its user."""
    remove_path(run_dir)  # Left by a failed start.
    for directory in (pod_dir / "home", run_dir, run_dir / "root", pod_dir / "volumes"):
        _make(directory)
    uid, gid = user if user is not None else (-1, -1)
    with closing(open_top(pod_dir / "home")) as homes:
        home = make_directories(homes, names_in(container["name"]), mode=0o755)
    with closing(home):
        set_rights_of_place(home, mode=0o755 if user is None else 0o700, uid=uid, gid=gid)
    with closing(open_top(run_dir)) as run:
        write_file(run, "message", b"", mode=0o644, owner=user)


def _make(directory: Path) -> None:
    """Create the directory and missing parents, accessible to all users whatever our umask is. No pod can
    write to any of these. Existing parents are not changed."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir()
        path.chmod(0o755)
    directory.chmod(0o755)


def write_open(path: Path, text: str) -> None:
    """Write a file that all users may read, whatever our umask is."""
    path.write_text(text)
    path.chmod(0o644)


def mount_note(settled: Settled) -> str:
    """A note for users if nothing can be mounted here; else ''."""
    places = [str(mount["mountPath"]) for mount in settled.container.get("volumeMounts") or ()]
    if settled.rights.enclosing or not places:
        return ""
    below = ", ".join(place.strip("/") for place in places)
    return (
        "this machine does not allow the agent to mount anything: volumes are not at their mount paths, "
        f"but below the container's own directory, $HOME: {below}"
    )


def link_mounts(home: Path, mounts: list[dict[str, Any]]) -> None:
    """Where nothing can be mounted: link volumes below the working directory, by their mount path. The pod
    can write there; if it has put a link in the way, the start fails."""
    with closing(open_top(home)) as top:
        for mount in mounts:
            *above, name = names_in(mount["to"].strip("/"))
            source = os.path.join(mount["top"], mount["below"]).rstrip("/")
            directory = make_directories(top, above, mode=0o755)
            with closing(directory), contextlib.suppress(FileExistsError):
                os.symlink(source, name, dir_fd=directory)
