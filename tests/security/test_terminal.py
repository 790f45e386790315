"""Texts from a cluster are anybody's. None of them may move a cursor, set a title, or pose as another line on
the terminal of whoever looks."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from tests.clients.running import running

from fathom.cli.main import run
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, Outcome, Subject
from fathom.record.journal import DiskJournal
from fathom.record.tape_list import directory_of
from fathom.schedule.loop.live import journal_directory
from fathom.seams.log import JsonLog
from fathom.seams.outside import SystemClock

ROOT = Path(__file__).parent.parent.parent
EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\x7f\u202egpj.exe\u2066\u2028\u200fready\nfathom: error: lost\ud800"
# Everything that a terminal obeys instead of showing, and what no line may hold.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def evil_decision(uid: str = "u") -> Decision:
    return Decision(
        id="d-1",
        time_ns=1,
        controller="scheduler",
        subject=Subject("pods", "default", "web", uid),
        verdict="unschedulable",
        cause=WakeCause("event", EVIL.removesuffix("\ud800")),
        message=EVIL.removesuffix("\ud800"),
        filters={EVIL.removesuffix("\ud800"): 1},
        victims=(EVIL.removesuffix("\ud800"),),
    )


def keep(data: Path, uid: str = "u") -> None:
    journal = DiskJournal(journal_directory(data, "scheduler"))
    journal.decided(evil_decision(uid))
    message = EVIL.removesuffix("\ud800")
    journal.concluded(Outcome(id="d-1", time_ns=2, result="conflict", message=message))
    journal.close()


@pytest.mark.parametrize("form", [(), ("-o", "wide"), ("-o", "yaml"), ("-o", "json")])
def test_decisions_show_no_escapes_and_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    keep(tmp_path)
    assert run(["decisions", "--data", str(tmp_path), *form]) == 0
    shown = capsys.readouterr().out
    assert OBEYED.findall(shown) == []
    if "json" in form:
        (found,) = json.loads(shown)
        assert found["decision"]["message"] == EVIL.removesuffix("\ud800")
    elif "yaml" not in form:
        assert shown.count("\n") == (1 if form else 2)
        assert r"\x1b]0;owned\x07" in shown


@pytest.mark.parametrize("form", [(), ("-o", "wide"), ("-o", "json")])
def test_why_shows_no_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    with running(tmp_path) as server:
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}
        server.request("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        pods = "/api/v1/namespaces/default/pods"
        server.request("POST", pods, {"metadata": {"name": "web"}, "spec": spec})
        message = EVIL.removesuffix("\ud800")
        status = {"phase": "Failed", "reason": "Evicted", "message": message}
        server.patch(f"{pods}/web/status", {"status": status})
        assert run(["why", "pod/web", "--kubeconfig", str(server.kubeconfig), *form]) == 1
        shown = capsys.readouterr().out
    assert "owned" in shown
    assert OBEYED.findall(shown) == []
    assert not any(line.startswith("fathom: error") for line in shown.splitlines())


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden"}
        raw = json.dumps({**body, "message": EVIL}).encode()
        self.send_response(403)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_POST = do_GET

    def log_message(self, *_: object) -> None: ...


@contextmanager
def refusing_server() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_servers_refusal_is_one_line_without_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing_server() as url:
        config = {
            "clusters": [{"name": "x", "cluster": {"server": url}}],
            "users": [{"name": "x", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        assert run(["why", "pod/web", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 2
    shown = capsys.readouterr().err
    assert "owned" in shown
    assert OBEYED.findall(shown) == []
    assert shown.count("\n") == 1


def test_a_tapes_own_words_are_shown_without_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import msgspec
    from tests.replay.test_commands import kept
    from tests.replay.toys import recorded

    from fathom.seams.process import Birth

    start, *rest = recorded(count=1)
    birth = msgspec.json.decode(start.payload, type=Birth)
    name = EVIL.removesuffix("\ud800")
    for changes in ({"entry": name}, {"fathom": name, "python": name}):
        payload = msgspec.json.encode(msgspec.structs.replace(birth, **changes))
        data = tmp_path / "".join(changes)
        kept(data, [msgspec.structs.replace(start, payload=payload), *rest])
        run(["record", "status", "--data", str(data), "-o", "wide"])
        run(["replay", str(directory_of(data, "toys"))])
        run(["replay", str(directory_of(data, "toys")), "--trust", "tests"])
        shown = capsys.readouterr()
        assert "owned" in shown.out
        assert OBEYED.findall(shown.out + shown.err) == []


SUPERVISED = """
import asyncio, sys
from pathlib import Path
from fathom.supervise import Part, Supervisor
said = {said!r}
api = Part("api", (sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"))
program = f"import sys; sys.stderr.buffer.write({{said!r}}); sys.exit(3)"
part = Part("part", (sys.executable, "-c", program))
asyncio.run(Supervisor(Path(sys.argv[1]), api=api, others=[part], nodes=0, out=sys.stdout).run())
"""


def test_the_supervisor_shows_what_parts_say_without_escapes(tmp_path: Path) -> None:
    words = EVIL.removesuffix("\ud800")
    said = json.dumps({"warning": words}, ensure_ascii=False) + f"\n{words.replace(chr(10), ' ')}\n"
    program = SUPERVISED.format(said=said.encode())
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ}) as process:
        assert process.stdout is not None
        shown = ""
        while "exited with code 3" not in shown:
            line = process.stdout.readline().decode()
            assert line, shown
            shown += line
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert "owned" in shown
    assert OBEYED.findall(shown) == []
    assert not any(line.startswith("fathom: error") for line in shown.splitlines())


def test_a_line_of_a_log_holds_nothing_that_a_terminal_obeys() -> None:
    stream = io.StringIO()
    JsonLog(stream, SystemClock()).warn("request", path=EVIL.removesuffix("\ud800"))
    assert OBEYED.findall(stream.getvalue()) == []
    assert stream.getvalue().count("\n") == 1
    assert json.loads(stream.getvalue())["path"] == EVIL.removesuffix("\ud800")


def test_all_that_the_command_line_says_goes_through_one_function() -> None:
    """And what the processes say that a person starts."""
    found = []
    files = [*sorted((ROOT / "src" / "fathom" / "cli").rglob("*.py"))]
    files += [ROOT / "src" / "fathom" / name for name in ("serve.py", "supervise.py")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            called = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            )
            taken = isinstance(node, ast.Attribute) and ast.unparse(node) in {
                "traceback.print_exc",
                "sys.stdout.write",
            }
            if called or taken:
                found.append(f"{file.name}: {ast.unparse(node)[:80]}")
    assert found == []
