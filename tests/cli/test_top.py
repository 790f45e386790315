"""`fathom top` in a real terminal, and in a pipe, against a real API server on a socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import pytest
from tests.api.harness import JANE, Api
from tests.ask.processes import AskedProcess
from tests.ask.test_decisions import asked
from tests.cli.asking import PODS, kubeconfig, node, pod
from tests.cli.screens import Screen, ScreenTerminal
from tests.cli.terminals import FATHOM, Terminal, in_pipe, in_terminal
from tests.top.builders import HOSTILE, SHOWN

from fathom.api.http import Http
from fathom.kinds.shape import API_VERSION

T = TypeVar("T")

SENTENCE = "pod default/large is not scheduled: no scheduler named 'default-scheduler'"
SIGNALS = "/apis/fathom.dev/v1alpha1/componentsignals"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
RESTORED = (True, False, True)  # The modes of the terminal; no full screen; a cursor.


class Served:
    """An API server that can be taken away and brought back at its address."""

    def __init__(self, api: Api, data: Path) -> None:
        self.api = api
        self._data = data
        self._loop = asyncio.get_running_loop()
        self._port = 0

    async def start(self) -> None:
        self._http = Http(self.api.parts.server, keep_alive_s=60)
        self._server = await self._loop.create_server(self._http.connection, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._http.stop(patience_s=0.1)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """From a test's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def env(self, token: str = "") -> dict[str, str]:
        config = kubeconfig(f"http://127.0.0.1:{self._port}")
        if token:
            config["users"][0]["user"] = {"token": token}
        path = self._data / f"kubeconfig-{token or 'admin'}"
        path.write_text(json.dumps(config))
        return {"KUBECONFIG": str(path)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """In a thread: terminals wait in the test's own."""
    ready, done, data = Event(), Event(), tmp_path_factory.mktemp("top")
    made: list[Served] = []

    async def story(api: Api, _scheduler: AskedProcess) -> None:
        served = Served(api, data)
        await served.start()
        for obj in (node("node-1", "1"), node("node-2", "2")):
            assert (await api.post("/api/v1/nodes", obj)).status == 201
        assert (await api.post(PODS, pod("large", "64"))).status == 201
        made.append(served)
        ready.set()
        await asyncio.to_thread(done.wait)
        await served.stop()

    thread = Thread(target=asked, args=(story, data))
    thread.start()
    try:
        assert ready.wait(60)
        yield made[0]
    finally:
        done.set()
        thread.join()


@contextmanager
def top(*words: str, env: dict[str, str], columns: int = 80, rows: int = 24) -> Iterator[ScreenTerminal]:
    with Terminal([*FATHOM, "top", *words], columns=columns, rows=rows, env=env) as terminal:
        yield ScreenTerminal(terminal, Screen(rows=rows, columns=columns))


def left(screen: ScreenTerminal) -> tuple[int, tuple[bool, bool, bool]]:
    """After the program ended: exit code, and whether the terminal is as before."""
    code, rest = screen.terminal.finish()
    screen.screen.feed(rest)
    modes = screen.terminal.modes() == screen.terminal.modes_before
    return code, (modes, screen.screen.full_screen, screen.screen.cursor)


def test_keys_select_open_filter_and_leave(server: Served) -> None:
    with top("-n", "default", env=server.env()) as screen:
        first = screen.wait_for(SENTENCE)
        assert first[0].startswith("fathom top  default  http://127.0.0.1:")
        assert screen.screen.full_screen
        screen.terminal.type("\r")
        lines = screen.wait_for("WHAT TO TYPE")
        assert lines[0].startswith("fathom top  pod default/large ")
        screen.terminal.type("?")
        screen.wait_for("show another namespace; an empty name: all")
        screen.terminal.type("\x1b")
        screen.wait_for("WHAT TO TYPE")
        screen.terminal.type("\x1b")
        screen.wait_for("NODES 2")
        screen.terminal.type("/nothing-has-this-name\r")
        screen.wait_for("nothing is stuck that matches nothing-has-this-name")
        screen.terminal.type("\x1b")
        screen.wait_for(SENTENCE)
        screen.terminal.type("nkube-system\r")
        screen.wait_for("fathom top kube-system")
        screen.wait_for("nothing is stuck")
        screen.terminal.type("n\r")
        screen.wait_for("fathom top all namespaces")
        screen.wait_for(SENTENCE)
        screen.terminal.type("q")
        assert left(screen) == (0, RESTORED)


def test_ctrl_c_in_a_narrow_terminal_leaves_it_as_it_was(server: Served) -> None:
    with top(env=server.env(), columns=60) as screen:
        screen.wait_for(SENTENCE)
        assert screen.screen.lines()[2].split() == ["STUCK", "1"]
        assert screen.screen.colours > 0
        screen.terminal.type("\x03")
        assert left(screen) == (0, RESTORED)


def test_sigterm_in_a_large_terminal_without_colours_leaves_it_as_it_was(server: Served) -> None:
    with top(env={**server.env(), "NO_COLOR": "1"}, columns=200, rows=60) as screen:
        screen.wait_for(SENTENCE)
        assert screen.screen.lines()[2].split() == ["STUCK", "1", "NODES", "2"]
        assert screen.screen.colours == 0
        os.kill(screen.terminal.pid, signal.SIGTERM)
        assert left(screen) == (143, RESTORED)


def test_it_ends_when_its_terminal_is_closed(server: Served) -> None:
    with top(env=server.env()) as screen:
        screen.wait_for(SENTENCE)
        assert screen.terminal.hang_up() == 129


def test_a_server_that_goes_away_is_reported_and_the_page_goes_on_when_it_is_back(server: Served) -> None:
    with top(env=server.env(), columns=120) as screen:
        screen.wait_for(SENTENCE)
        server.run(server.stop())
        screen.wait_for("connection lost since")
        assert SENTENCE in " ".join(screen.screen.text().split())
        server.run(server.start())
        screen.wait_for("connection lost since", absent=True)
        server.run(server.api.post(PODS, pod("larger", "65")))
        screen.wait_for("pod default/larger is not scheduled")
        server.run(server.api.call("DELETE", f"{PODS}/larger"))
        screen.wait_for("pod default/larger is not scheduled", absent=True)
        screen.terminal.type("q")
        assert left(screen) == (0, RESTORED)


def test_hostile_text_is_shown_as_text(server: Served) -> None:
    signals = {
        "apiVersion": API_VERSION,
        "kind": "ComponentSignals",
        "metadata": {"name": "hostile"},
        "spec": {},
    }
    status = {"status": {"signals": [{"name": "trouble", "message": HOSTILE}]}}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "hostile"},
        "spec": {"holderIdentity": HOSTILE},
    }
    assert server.run(server.api.post(SIGNALS, signals)).status == 201
    merge = {"content-type": "application/merge-patch+json"}
    patched = server.run(server.api.call("PATCH", f"{SIGNALS}/hostile/status", status, headers=merge))
    assert patched.status == 200
    made = server.run(server.api.post(LEASES, lease))
    assert made.status == 201
    with top(env=server.env(), columns=120, rows=40) as screen:
        screen.wait_for(f"hostile reports trouble: {SHOWN}")
        screen.wait_for(f"leader of hostile: {SHOWN}")
        assert "owned\x07" not in screen.raw
        screen.terminal.type("q")
        assert left(screen) == (0, RESTORED)
    for path in (f"{SIGNALS}/hostile", f"{LEASES}/hostile"):
        server.run(server.api.call("DELETE", path))


def test_hostile_text_is_shown_as_text_on_the_page_of_an_object(server: Served) -> None:
    assert server.run(server.api.post(PODS, pod("hostile", "1"))).status == 201
    merge = {"content-type": "application/merge-patch+json"}
    status = {"status": {"phase": "Failed", "reason": "Evicted", "message": HOSTILE}}
    patched = server.run(server.api.call("PATCH", f"{PODS}/hostile/status", status, headers=merge))
    assert patched.status == 200
    with top("pod/hostile", env=server.env(), columns=120, rows=40) as screen:
        screen.wait_for(SHOWN)
        assert "owned\x07" not in screen.raw
        screen.terminal.type("q")
        assert left(screen) == (0, RESTORED)
    server.run(server.api.call("DELETE", f"{PODS}/hostile"))


def test_a_user_of_one_namespace_sees_what_they_may(server: Served) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    binding = {"metadata": {"name": "jane"}, "roleRef": role, "subjects": [subject]}
    assert server.run(server.api.post(BINDINGS, binding)).status == 201
    with top("-A", env=server.env(JANE), columns=100, rows=40) as screen:
        screen.wait_for("pod default/large is not scheduled")
        screen.wait_for("not allowed to list workloadprogresses")
        screen.terminal.type("ndefault\r")
        screen.wait_for("not allowed to list workloadprogresses", absent=True)
        screen.wait_for("not allowed to list nodes")
        screen.wait_for("not allowed to list leases in fathom-system")
        screen.terminal.type("q")
        assert left(screen) == (0, RESTORED)


def test_in_a_pipe_the_page_is_printed_once(server: Served) -> None:
    code, out = in_pipe("top", env=server.env())
    assert (code, "\x1b" in out) == (0, False)
    assert out.splitlines()[0] == "STUCK 1"
    assert out.splitlines()[1].startswith(f"  ✗ {SENTENCE}")
    assert "    node-1 ░░░░░░ cpu  0% mem  0% 0 pods Unknown" in out.splitlines()


def test_the_page_is_a_document_with_o_json_also_in_a_terminal(server: Served) -> None:
    code, out = in_terminal("top", "-A", "-o", "json", columns=80, env=server.env())
    document = json.loads(out)
    assert (code, document["namespace"], document["notes"]) == (0, "", {})
    stuck = document["stuck"][0]
    assert (stuck["resource"], stuck["namespace"], stuck["name"]) == ("pods", "default", "large")
    assert [each["name"] for zone in document["zones"] for each in zone["nodes"]] == ["node-1", "node-2"]
    code, out = in_pipe("top", "pod/large", "-o", "json", env=server.env())
    assert (code, json.loads(out)["why"][0].startswith(SENTENCE)) == (0, True)


def test_o_name_prints_what_is_stuck(server: Served) -> None:
    assert in_terminal("top", "-o", "name", columns=80, env=server.env()) == (0, "pods/large\n")


def test_an_object_that_does_not_exist_is_an_error_in_a_pipe(server: Served) -> None:
    line = "fathom: error: there is no pod default/nosuch, and nothing is on record about one\n"
    assert in_pipe("top", "pod/nosuch", env=server.env()) == (1, line)


def test_without_a_server_it_says_what_other_commands_say(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig("http://127.0.0.1:1")))
    env = {"KUBECONFIG": str(config), "NO_COLOR": "1"}
    expected = in_pipe("why", env=env)
    assert in_pipe("top", env=env) == expected
    code, shown = in_terminal("top", columns=200, env=env)
    assert (code, shown) == expected
    assert expected[0] == 2
    assert "http://127.0.0.1:1 does not answer (Connection refused)" in expected[1]


def test_help_does_not_wait_for_the_terminal_library() -> None:
    code = (
        "import sys\nfrom fathom.cli.main import run\n"
        "for words in (['--help'], ['top', '--help']):\n    run(words)\n"
        "print([name for name in sys.modules if name.split('.')[0] in {'textual', 'rich'}], file=sys.stderr)"
    )
    with Terminal([sys.executable, "-c", code], columns=80, env={}) as terminal:
        assert terminal.finish()[1].splitlines()[-1] == "[]"
