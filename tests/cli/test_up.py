"""`fathom up` and `fathom serve api` as a person starts them, and the driver on a server of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.deep import first_few

from fathom.cli.main import run
from fathom.supervise import LogFile, PartLine, Status, end_words, heard

FATHOM = [sys.executable, "-m", "fathom.cli"]
API, CLUSTER = ("serve", "api"), ("up", "--nodes", "0")
BOTH = pytest.mark.parametrize("command", [API, CLUSTER], ids=["api", "up"])


@contextmanager
def hearing_a_closed_terminal() -> Iterator[None]:
    """Whoever is started now, also where these tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def up(
    data: Path, *arguments: str, command: tuple[str, ...] = API
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A server that has said `ready`, and what it said until then."""
    whole = [*FATHOM, *command, "--data", str(data), "--port", "0", *arguments]
    with hearing_a_closed_terminal():
        started = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with started as process:
        assert process.stdout is not None
        said: list[str] = []
        while (line := process.stdout.readline()) and line != "ready\n":
            said.append(line.rstrip("\n"))
        try:
            yield process, said
        finally:
            process.kill()


@BOTH
@pytest.mark.parametrize("stop", first_few([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], 2))
def test_it_says_how_to_use_it_and_stops_cleanly_when_told(
    tmp_path: Path, stop: signal.Signals, command: tuple[str, ...]
) -> None:
    data = tmp_path / "data"
    with up(data, command=command) as (process, said):
        process.send_signal(stop)
        rest, errors = process.communicate(timeout=20)
    assert said[-1] == f"export KUBECONFIG={data}/kubeconfig"
    assert rest.splitlines()[-1:] == (["stopped gateway, deciders, api"] if command == CLUSTER else [])
    assert process.returncode == 0
    assert "Traceback" not in errors


def test_a_cluster_that_is_ready_says_what_to_type_next(tmp_path: Path) -> None:
    with up(tmp_path / "data", command=CLUSTER) as (process, _):
        assert process.stdout is not None
        page, *lines = (process.stdout.readline() for _ in range(6))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert page.startswith("page     https://127.0.0.1:")
    assert [re.sub(r"^  \S*fathom ", "  fathom ", line) for line in lines] == [
        "next, in another terminal, after the export above:\n",
        "  fathom get nodes        what is there; kubectl works too\n",
        "  fathom apply -f FILE    run something: docs/examples/web.yaml\n",
        "  fathom why              whatever is stuck, why, and what to type\n",
        "  fathom demo risk-api    an incident, from the rollout to the replay, on a cluster of its own\n",
    ]


def refused(command: tuple[str, ...], *arguments: str) -> str:
    """The one line that a start which cannot be ends with."""
    done = subprocess.run(
        [*FATHOM, *command, *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    return done.stderr.removeprefix("fathom: error: ").strip()


@BOTH
def test_a_taken_port_is_named_with_the_way_out(tmp_path: Path, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refused(command, "--data", str(tmp_path / "data"), "--port", str(port))
    assert told == f"port {port} on 127.0.0.1 is in use; choose another, for example --port {port + 1}"


@BOTH
def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    with up(tmp_path / "data", command=command) as (process, _):
        told = refused(command, "--data", str(tmp_path / "data"), "--port", "0")
    assert str(tmp_path / "data") in told
    assert command == API or str(process.pid) in told


@BOTH
@pytest.mark.parametrize(
    "arguments",
    [
        ("--store", "nonsense"),
        ("--host", "256.0.0.1"),
        ("--host", "192.0.2.1"),
        ("--admission", "no_such_module:plugin"),
        ("--data", "file/data"),
        ("--data", "spoiled"),
    ],
)
def test_what_cannot_be_started_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("not a directory")
    (tmp_path / "spoiled" / "pki").mkdir(parents=True)
    for name in ("ca.crt", "ca.key"):
        (tmp_path / "spoiled" / "pki" / name).write_text("not a certificate")
    told = refused(command, "--data", "data", "--port", "0", *arguments)
    assert "FATHOM_DEBUG" not in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--zones", "a,,b"), "--zones must read A,B,…, not 'a,,b'"),
        (("--zones", "a,b c"), "--zones: 'b c' is not a valid zone name: "),
        (("--images", "none.toml"), "none.toml: No such file or directory"),
        (("--images", "bad.toml"), "bad.toml: Invalid"),
    ],
)
def test_a_cluster_whose_nodes_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("x = [")
    assert words in refused(("up",), "--data", "data", "--port", "0", *arguments)
    assert not (tmp_path / "data").exists()


def test_bench_measures_a_server_of_its_own_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = ["--connections", "4", "--objects", "40", "--seconds", "1"]
    assert run(["bench", "api", "--json", "--data", str(tmp_path), *load]) == 0
    result = json.loads(capsys.readouterr().out)
    numbers = [result[name] for name in ("create_per_s", "get_per_s", "update_per_s", "list_ms")]
    assert min(numbers) > 0
    assert 0 < result["ready_s"] < 30
    assert 20 < result["rss_mb"] < 500
    assert result["server"]["own"]
    assert result["server"]["store"] == "sqlite"
    assert list(tmp_path.iterdir()) == []


def test_bench_measures_a_running_server_and_gives_its_namespace_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with up(tmp_path / "data", "--store", "memory:") as (process, _):
        where = ["--kubeconfig", str(tmp_path / "data" / "kubeconfig"), "--pid", str(process.pid)]
        assert run(["bench", "watch", "--json", "--watchers", "5", "--writes", "20", *where]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["events"], result["ready_s"], result["server"]["own"]) == (100, None, False)
    assert result["rss_mb"] > 20
    assert result["cores"]["watch"]["server"] is not None


def test_bench_on_a_server_that_does_not_start_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "api", "--data", str(tmp_path), "--store", "nonsense"]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "`fathom serve api` exited with code 2: fathom: error: " in shown.err


# The supervisor.


def children(process: subprocess.Popen[str]) -> dict[str, int]:
    """Part -> process id, of those that the supervisor has started."""
    found = {}
    for line in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        words = Path(f"/proc/{line}/cmdline").read_text().split("\0")
        if "serve" in words:  # Else it has just died.
            found[words[words.index("serve") + 1]] = int(line)
    return found


def until(check: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)


def _all_new(before: dict[str, int], after: dict[str, int]) -> bool:
    return before.keys() == after.keys() and not set(before.values()) & set(after.values())


def _is_back(process: subprocess.Popen[str], part: str, before: int) -> bool:
    return children(process).get(part, before) != before


def test_a_part_that_dies_is_started_again(tmp_path: Path) -> None:
    with up(tmp_path / "data", command=CLUSTER) as (process, _):
        before = children(process)
        for part in ("api", "deciders", "gateway"):
            os.kill(before[part], signal.SIGKILL)
        until(lambda: _all_new(before, children(process)), "they are not all there again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_server_that_is_killed_before_it_is_ready_is_started_again(tmp_path: Path) -> None:
    words = [*FATHOM, *CLUSTER, "--data", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        until(lambda: "api" in children(process), "no server is started")
        os.kill(children(process)["api"], signal.SIGKILL)
        said = iter(process.stdout.readline, "ready\n")
        assert next(said) == "api was killed by SIGKILL before it was ready; restarting it\n"
        assert len(list(said)) == 2  # Where it serves, and how to use it.
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_parts_are_started_again_though_nobody_reads_what_is_said(tmp_path: Path) -> None:
    with up(tmp_path / "data", command=CLUSTER) as (process, _):
        assert process.stdout is not None
        process.stdout.close()
        for part in ("gateway", "deciders"):
            before = children(process)
            os.kill(before[part], signal.SIGKILL)
            until(partial(_is_back, process, part, before[part]), f"{part} is not back")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_full_disk_costs_lines_of_a_log_and_nothing_else() -> None:
    log = LogFile(Path("/dev/full"))
    log.write(b"lost\n")
    log.close()


def test_a_log_is_kept_to_its_size(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "part.log", bytes_max=20)
    for number in range(10):
        log.write(b"line %d\n" % number)
    log.close()
    kept = [(tmp_path / name).read_bytes() for name in ("part.log.1", "part.log")]
    assert kept == [b"line 6\nline 7\n", b"line 8\nline 9\n"]


def test_parts_whose_supervisor_is_gone_end_by_themselves_and_the_next_one_takes_over(tmp_path: Path) -> None:
    with up(tmp_path / "data", command=CLUSTER) as (process, _):
        orphans = children(process).values()
        process.kill()
        process.wait()
        with up(tmp_path / "data", command=CLUSTER) as (second, said):
            assert said
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans), "they have ended")
            second.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0


def test_what_parts_have_to_say_to_people_is_said_and_the_rest_is_for_their_log() -> None:
    assert heard(b'{"level":"warn","event":"agent","warning":"pods can read everything"}').warning == (
        "pods can read everything"
    )
    assert heard(b'{"event":"status","status":{"nodes":3,"ready":2}}').status == Status(nodes=3, ready=2)
    assert heard(b'{"level":"warn","event":"request","status":501}') == PartLine()
    assert heard(b"Traceback with a warning") == PartLine()
    everyday = '{"level":"info","event":"node"}'
    assert [end_words("api", code, last) for code, last in ((-9, "x"), (1, everyday), (2, "port taken"))] == [
        "api was killed by SIGKILL", "api exited with code 1", "api exited with code 2: port taken",
    ]  # fmt: skip
