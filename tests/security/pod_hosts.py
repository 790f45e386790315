"""A server and an agent that run pods, as root or as an ordinary user, and what pods try to reach there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.living import AgentProcess, Cluster, status_of
from tests.clients.running import Account, ordinary_account, running

from fathom.model.objects import Obj, lookup

ORDINARY = 54321  # A user that no machine has; so is the group of the same number.
SECRET = "this is the secret of somebody else"


@contextmanager
def open_directory(owner: int = 0) -> Iterator[Path]:
    """In a place that every user may go through, as pytest's own directories are not."""
    place = Path(tempfile.mkdtemp(prefix="fathom-test-", dir="/var/tmp"))
    try:
        os.chown(place, owner, owner)
        place.chmod(0o755)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def pods_run_by(user: int | None, *arguments: str, account: Account | None = None) -> Iterator[Cluster]:
    """`user`: of the server and of the agent; None: the one of the tests, or the account's."""
    account = account or (Account() if user is None else ordinary_account(user))
    if account is None:
        pytest.skip(f"user {user} can run no Python that has our packages")
    with (
        open_directory(os.getuid() if user is None else user) as place,
        running(place, account=account) as server,
    ):
        agent = AgentProcess(server, place / "agent.log", *arguments, account=account)
        agent.start()
        cluster = Cluster(server, agent)
        try:
            yield cluster
            cluster.clean()
        finally:
            agent.end()


def secret_file(directory: Path, name: str, *, uid: int = 0, gid: int = 0, mode: int) -> Path:
    file = directory / name
    file.write_text(SECRET)
    os.chown(file, uid, gid)
    file.chmod(mode)
    return file


def attempt(cluster: Cluster, name: str, script: str, **spec: object) -> str:
    """All that a pod which runs this shell script says until it has ended."""
    cluster.run(name, "sh", "-c", f"({script}) 2>&1; echo over", restartPolicy="Never", **spec)
    cluster.until_ended(name)
    return cluster.logs(name)


def refusal(cluster: Cluster, name: str, **spec: object) -> str:
    """Why the agent does not start the pod's container."""
    cluster.run(name, "sleep", "300", **spec)

    def waits_or_runs(pod: Obj) -> bool:
        state = status_of(pod).get("state") or {}
        return bool(lookup(state, "waiting", "message") or "running" in state or "terminated" in state)

    waiting = lookup(status_of(cluster.until(name, waits_or_runs)), "state", "waiting") or {}
    return f"{waiting.get('reason')}: {waiting.get('message')}"


def root_of(pid: int) -> str:
    """The files of a process, as it sees them, in /proc."""
    return f"/proc/{pid}/root"


def ids_on_the_host(pid: int) -> dict[str, list[int]]:
    """Uid, Gid and Groups of a process, as whoever calls this sees them."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {name: rest.split() for name, _, rest in (line.partition(":\t") for line in lines)}
    return {name: [int(word) for word in fields[name]] for name in ("Uid", "Gid", "Groups")}
