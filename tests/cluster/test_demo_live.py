"""`fathom demo risk-api`, unattended: every step goes as it should, and the cluster is left to play with."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.cli.terminals import Terminal

from fathom.demo.risk_api import STORY
from fathom.demo.steps import Step, trouble

pytestmark = pytest.mark.live

FATHOM = [sys.executable, "-m", "fathom.cli"]


def fathom(*words: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FATHOM, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if "DISPLAY" not in name},  # No browser.
    )


def user_of(address: str, code: str, data: Path) -> str:
    """Whom the link of the page logs in."""
    tls = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
    asked = urllib.request.Request(f"{address}session", json.dumps({"code": code}).encode(), method="POST")
    with urllib.request.urlopen(asked, context=tls, timeout=20) as answer:
        return str(json.load(answer)["user"])


@pytest.mark.timeout(400)
def test_the_incident_is_told_from_the_rollout_to_the_replay(tmp_path: Path) -> None:
    data = tmp_path / "demo"
    try:
        done = fathom("demo", "risk-api", "--yes", "--page", "--data", str(data), timeout_s=360)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout[-3000:]
        # Each step's output is checked by the demo itself; here, that each was shown, in order.
        shown = re.findall(r"^\$ (fathom .*)$", done.stdout, flags=re.M)
        assert shown == [step.command for act in STORY for step in act.steps]
        following = r"^# The page: (https://\S+/ui/)#login=([\w-]+)&follow=default/fathom-demo  \(once"
        link = re.search(following, done.stdout, flags=re.M)
        assert link is not None
        address, code = link.groups()
        named = re.findall(r"^# On the page: (\S+)$", done.stdout, flags=re.M)
        assert named == [address + step.page for act in STORY for step in act.steps if step.page]
        told = fathom("get", "cm", "fathom-demo", "-o", "json", "--kubeconfig", str(data / "kubeconfig"))
        last = [step for act in STORY for step in act.steps if step.page][-1]
        assert json.loads(told.stdout)["data"] == {"page": last.page, "text": last.text}
        assert user_of(address, code, data) == "fathom-admin"
        assert "fathom: error: the rollout is not done after 12s" in done.stdout
        assert "0 of 2" not in done.stdout.partition("== 2.")[2].partition("== 3.")[0]
        nodes = fathom("get", "nodes", "-o", "name", "--kubeconfig", str(data / "kubeconfig"))
        assert nodes.stdout == "node/node-1\nnode/node-2\nnode/node-3\n"
        again = fathom("demo", "risk-api", "--yes", "--data", str(data))
        assert again.returncode == 2
        assert "is not empty: end the last demonstration with `fathom down" in again.stderr
    finally:
        ended = fathom("down", "--data", str(data))
    assert ended.returncode == 0
    assert "ended 2 pods: default/risk-api-" in ended.stdout


def test_without_a_terminal_it_asks_for_yes(tmp_path: Path) -> None:
    done = fathom("demo", "risk-api", "--data", str(tmp_path / "demo"))
    assert done.returncode == 2
    assert done.stderr == (
        "fathom: error: there is no terminal to wait at: give --yes to run it unattended\n"
    )


def test_a_person_at_a_terminal_sees_a_command_before_it_runs_and_can_leave(tmp_path: Path) -> None:
    """Two steps without a cluster: what waits for the key is the demonstration's own."""
    code = (
        "import sys; from pathlib import Path\n"
        "from fathom.cli.cluster.demo import _wait_for_key; from fathom.demo.player import Stage, play\n"
        "from fathom.demo.steps import Act, Step; from fathom.terminal import say\n"
        "steps = tuple(Step(text=word, command=f'echo {word}-ran') for word in ('first', 'second'))\n"
        "play((Act('one', steps),), Stage(Path(sys.argv[1])), say, _wait_for_key)"
    )
    (tmp_path / "demo").mkdir()
    with Terminal([sys.executable, "-c", code, str(tmp_path)], columns=80, env={}) as terminal:
        assert "\r\nfirst-ran" not in terminal.wait_for("$ echo first-ran\r\n  (Enter runs it) ")
        terminal.type("\n")
        shown = terminal.wait_for("$ echo second-ran\r\n  (Enter runs it) ")
        assert "\r\nfirst-ran\r\n" in shown
        assert "\r\nsecond-ran" not in shown
        terminal.type("\x04")  # Ctrl-D.
        exit_code, rest = terminal.finish()
    assert (exit_code != 0, "\nsecond-ran" in rest) == (True, False)


def test_without_the_extra_for_runbooks_it_says_so_before_it_starts_anything(tmp_path: Path) -> None:
    program = "import sys; sys.modules['cel_expr_python'] = None; from fathom.cli.main import main; main()"
    words = ("demo", "risk-api", "--yes", "--data", str(tmp_path / "demo"))
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr, list(tmp_path.iterdir())) == (
        2,
        "",
        "fathom: error: conditions of runbooks need a library: pip install 'fathom-control[runbooks]'\n",
        [],
    )


@pytest.mark.parametrize(
    ("exit_code", "output", "complaint"),
    [
        (1, "all is well\nreally", ""),
        (0, "all is well", "it ended with exit code 0, not 1"),
        (1, "all is", "it did not say 'all is well'"),
    ],
)
def test_a_step_that_goes_otherwise_is_told(exit_code: int, output: str, complaint: str) -> None:
    step = Step(text="", command="fathom why", says=("all is well",), exit_code=1)
    assert trouble(step, exit_code, output) == complaint
