"""A server whose store takes no more: it says so to whoever asks whether it is ready, and comes back."""

from __future__ import annotations

import http.client
import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.clients.running import Server, running

MAPS = "/api/v1/namespaces/default/configmaps"
WAIT_S = 60


def asked(server: Server, method: str, path: str, body: object = None) -> tuple[int, str]:
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls, timeout=20)
    try:
        connection.request(method, path, body=None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def until(check: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not check():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def write(server: Server, name: str) -> int:
    """Less than the server itself tries to write: where this finds no room, that does not."""
    body = {"metadata": {"generateName": name}, "data": {"x": "x" * 20_000}}
    return asked(server, "POST", MAPS, body)[0]


def is_full(server: Server) -> bool:
    """SQLite finds room once more when it moves its log into the file: not one refusal counts, but many."""
    return all(write(server, "fill-") >= 500 for _ in range(20))


def is_ready(server: Server) -> bool:
    return asked(server, "GET", "/readyz")[0] == 200


@contextmanager
def no_more_bytes(server: Server) -> Iterator[None]:
    """No file of the server may grow beyond some megabytes."""
    pid, endless = server.process.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (6_000_000, endless))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (endless, endless))


def test_a_server_that_cannot_write_is_alive_but_not_ready_until_it_can(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        assert is_ready(server)
        with no_more_bytes(server):
            until(lambda: is_full(server), "the store takes everything")
            status, text = asked(server, "GET", "/readyz?verbose")
            assert status == 500
            assert "[-]store failed" in text
            assert "[+]ping ok" in text
            assert str(tmp_path) not in text
            assert asked(server, "GET", "/readyz/store")[0] == 500
            assert asked(server, "GET", "/readyz/ping")[0] == 200
            assert asked(server, "GET", "/livez")[0] == 200
            assert asked(server, "GET", MAPS)[0] == 200
        until(lambda: is_ready(server), "it does not come back")
        assert write(server, "after-") == 201


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_server_on_a_full_disk_is_not_ready_though_nobody_has_written(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this system lets nobody mount anything")
    try:
        with running(disk) as server:
            assert is_ready(server)
            fill(disk / "filler")
            until(lambda: not is_ready(server), "a full disk is as good as any")
            (disk / "filler").unlink()
            until(lambda: is_ready(server), "it does not come back")
            assert write(server, "after-") == 201
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
