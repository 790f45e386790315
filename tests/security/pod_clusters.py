"""Clusters of one node for attacks by pods: run by root, and run by a user with no rights of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agent.living import AgentProcess, Cluster, enclosed, is_root, status_of
from tests.clients.running import Account, ordinary_account, running

from fathom.model.objects import Obj, lookup

UID = 63411
WAITS = "CreateContainerConfigError"


@contextmanager
def one_node(who: str) -> Iterator[Cluster]:
    """`who`: 'root', 'user', or 'unmounted': root that may not mount. Skips where this machine cannot have
    it."""
    place = Path(tempfile.mkdtemp(prefix="fathom-files-", dir="/tmp"))
    try:
        account, owner = _account(who, place)
        place.chmod(0o755)
        os.chown(place, owner, owner)
        with running(place, account=account) as server:
            agent = AgentProcess(server, place / "agent.log", account=account)
            agent.start()
            try:
                yield Cluster(server, agent)
            finally:
                agent.end(signal.SIGTERM)
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=False)  # However deep.


def _account(who: str, place: Path) -> tuple[Account, int]:
    if who == "unmounted":
        return account_without_mounts(place), 0
    if enclosed.args[0]:
        pytest.skip("the system permits no mounts")
    if who == "user" and is_root():
        account = ordinary_account(UID)
        if account is None:
            pytest.skip("an ordinary user can run no Python that has our packages")
        return account, UID
    if who == "root" and not is_root():
        pytest.skip("only root can run a cluster as root")
    return Account(), os.getuid()


def account_without_mounts(place: Path) -> Account:
    """As in most containers: root, but with no right to mount anything."""
    if not is_root() or shutil.which("setpriv") is None:
        pytest.skip("only root, and setpriv, can give up the right to mount")
    python = place / "python"
    python.write_text(f'#!/bin/sh\nexec setpriv --bounding-set -sys_admin {sys.executable} "$@"\n')
    python.chmod(0o755)
    return Account(str(python))


@contextmanager
def outside_directory(cluster: Cluster) -> Iterator[Path]:
    """A directory that belongs to whoever runs the agent, as the packages of its Python do; no pod's."""
    owner = cluster.server.data.stat().st_uid
    place = Path(tempfile.mkdtemp(prefix="fathom-outside-", dir="/tmp"))
    place.chmod(0o755)
    (place / "site").mkdir(mode=0o755)
    (place / "site/kept").write_text("kept")
    for one in (place, place / "site", place / "site/kept"):
        os.chown(one, owner, owner)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def seen_of(place: Path) -> list[tuple[str, int, int, int, bytes]]:
    """Everything there: names, rights, owners, contents."""
    found = []
    for one in [place, *sorted(place.rglob("*"))]:
        about = one.lstat()
        content = one.read_bytes() if one.is_file() and not one.is_symlink() else b""
        found.append((str(one.relative_to(place)), about.st_mode, about.st_uid, about.st_gid, content))
    return found


def init(name: str, script: str, *mounts: Obj) -> Obj:
    return {"name": name, "image": "x", "command": ["sh", "-c", script], "volumeMounts": list(mounts)}


def mount(name: str, path: str, **fields: Any) -> Obj:
    return {"name": name, "mountPath": path, **fields}


def waiting(pod: Obj, name: str = "main") -> Obj:
    return lookup(status_of(pod, name), "state", "waiting") or {}


def until_refused(cluster: Cluster, pod: str, holds: Callable[[str], object], name: str = "main") -> str:
    """What the container that must not start says of it."""

    def is_said(found: Obj) -> bool:
        about = status_of(found, name)
        assert not lookup(about, "state", "running"), f"it runs: {about}"
        assert not lookup(about, "state", "terminated"), f"it ran: {about}"
        assert not lookup(about, "lastState", "terminated"), f"it ran: {about}"
        return waiting(found, name).get("reason") == WAITS

    message = str(waiting(cluster.until(pod, is_said), name).get("message"))
    assert holds(message), message
    return message
