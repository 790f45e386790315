"""`fathom doctor`: what it finds on a machine where something is wrong."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fathom.cli.main import run
from fathom.doctor import Examined, Finding, examine

pytestmark = pytest.mark.live


def found(data: Path, port: int = 0) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(Examined(data, "127.0.0.1", port))}


def test_a_machine_that_runs_these_tests_can_run_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["doctor", "--data", str(tmp_path / "data"), "--port", str(port)]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith(("ok", "warning"))]) == 13
    assert run([*words, "-o", "json"]) == 0
    assert {finding["state"] for finding in json.loads(capsys.readouterr().out)} <= {"ok", "warning"}


def test_a_taken_port_is_a_failure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finding = found(tmp_path, port)["port"]
        assert run(["doctor", "--data", str(tmp_path), "--port", str(port)]) == 1
    assert (finding.state, finding.found) == ("failure", f"127.0.0.1:{port}: Address already in use")
    assert "--port" in finding.advice


def test_an_old_kubectl_is_a_warning_and_none_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(tmp_path)["kubectl"].state == "ok"
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho \'{"clientVersion":{"major":"1","minor":"28"}}\'\n')
    program.chmod(0o755)
    finding = found(tmp_path)["kubectl"]
    assert (finding.state, finding.found) == ("warning", "kubectl 1.28")


def test_a_full_disk_and_a_clock_that_was_never_set_are_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    findings = found(tmp_path / "not" / "there")
    assert {name for name, finding in findings.items() if finding.state == "failure"} == {"disk", "clock"}
    assert all(finding.advice for finding in findings.values() if finding.state != "ok")


def test_what_is_not_ok_is_named_and_has_its_advice_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["doctor", "--data", str(tmp_path), "--port", str(taken.getsockname()[1])]
        assert run([*words, "-o", "name"]) == 1
        names = capsys.readouterr().out.splitlines()
        assert run([*words, "-o", "wide"]) == 1
    assert "port" in names
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["STATE", "CHECK", "FOUND", "DO"]
    assert [row.split()[1] for row in rows if not row.startswith("ok ")] == names
    assert [row for row in rows if row.endswith("choose another port with `fathom up --port`")]


def test_a_machine_without_user_namespaces_gets_a_warning_with_what_to_do(tmp_path: Path) -> None:
    """Without root, and in a user namespace below which no other may be made."""
    permitted = subprocess.run(["unshare", "--user", "--map-root-user", "true"], check=False)
    if permitted.returncode:
        pytest.skip("no user namespace can be made here")
    limit = "echo 1 > /proc/sys/user/max_user_namespaces"
    inside = f'{limit} && exec unshare --user --map-user=1000 --map-group=1000 "$@"'
    doctor = [
        sys.executable,
        "-m",
        "fathom.cli",
        "doctor",
        "--data",
        str(tmp_path),
        "--port",
        "0",
        "-o",
        "json",
    ]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", inside, "sh", *doctor],
        capture_output=True,
        text=True,
        check=False,
    )
    finding = next(each for each in json.loads(done.stdout) if each["check"] == "isolation")
    assert finding["state"] == "warning"
    assert finding["found"].startswith("pods can read those of the server's files that user 1000 can read: ")
    assert finding["advice"].startswith("allow user namespaces: sysctl ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_is_a_failure() -> None:
    assert found(Path("/proc/nowhere"))["disk"].state == "failure"
