"""Directories and files of a pod on this machine: made whatever our umask is, for their user."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from fathom.agent.host.launch import Settled
from fathom.model.objects import Obj


def make_places(pod_dir: Path, run_dir: Path, container: Obj, user: tuple[int, int] | None) -> None:
    """A container's own directories, for its user."""
    shutil.rmtree(run_dir, ignore_errors=True)  # Of a start that came to nothing.
    home = pod_dir / "home" / container["name"]
    for directory in (home, run_dir, run_dir / "root", pod_dir / "volumes"):
        _make(directory)
    message = run_dir / "message"
    message.touch()
    if user is not None:
        os.chown(home, *user)
        home.chmod(0o700)
        os.chown(message, *user)


def _make(directory: Path, below: Path | None = None) -> None:
    """With what is missing above it; whatever our umask, others may go there. What is above that is not ours
    to change."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir()
        one.chmod(0o755)
    if directory != below:
        directory.chmod(0o755)


def write_open(path: Path, text: str) -> None:
    """For everybody to read, whatever our umask."""
    path.write_text(text)
    path.chmod(0o644)


def mount_note(settled: Settled) -> str:
    """Said where nothing can be mounted."""
    places = [str(one["mountPath"]) for one in settled.container.get("volumeMounts") or ()]
    if settled.rights.enclosing or not places:
        return ""
    below = ", ".join(place.strip("/") for place in places)
    return (
        "the system does not let the agent mount anything for pods: volumes are not at their mount paths, "
        f"but below the container's own directory, which $HOME names: {below}"
    )


def link_mounts(home: Path, mounts: list[dict[str, Any]]) -> None:
    """Where nothing can be mounted: below the working directory, by the mount's own path."""
    for mount in mounts:
        link = home / mount["to"].strip("/")
        _make(link.parent, below=home)
        if not link.is_symlink() and not link.exists():
            link.symlink_to(mount["from"])
