"""Commands that steer: a real API server on a socket, and `fathom` run by several people."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.api.harness import Api, tell
from tests.cli.asking import kubeconfig, listening

from fathom.api.http import Http
from fathom.cli.main import run

Obj = dict[str, Any]
Said = tuple[int, str, str]

OWN = "/apis/fathom.dev/v1alpha1/namespaces/default"

LESSON: Obj = {
    "target": "workload/risk-api",
    "scope": "region/eu-west",
    "reason": "recovery-capacity",
    "expiresAfter": "45m",
    "changes": {
        "pauseAutoscaler": True,
        "avoidZones": ["eu-west-a"],
        "allowReservedCapacityClass": "recovery",
    },
}
FLAGS = (
    "--target=workload/risk-api", "--scope=region/eu-west", "--reason=recovery-capacity", "--for=45m",
    "--pause-autoscaler", "--avoid-zone=eu-west-a", "--allow-class=recovery",
)  # fmt: skip


class Person:
    """Somebody who types commands."""

    def __init__(self, url: str, directory: Path, token: str) -> None:
        self.kubeconfig = directory / f"kubeconfig-{token}"
        config = kubeconfig(url)
        config["users"][0]["user"]["token"] = token
        self.kubeconfig.write_text(json.dumps(config))

    async def fathom(self, *words: str) -> Said:
        """Exit code, stdout, stderr."""
        return await asyncio.to_thread(self._run, words)

    def _run(self, words: tuple[str, ...]) -> Said:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*words, "--kubeconfig", str(self.kubeconfig)])
        return code, out.getvalue(), err.getvalue()


def at_a_terminal(words: tuple[str, ...], typed: str) -> tuple[int, str, str]:
    """Run the command with a terminal as its input."""
    terminal, end = pty.openpty()
    try:
        os.write(terminal, typed.encode())
        command = [sys.executable, "-m", "fathom.cli", *words]
        ran = subprocess.run(command, stdin=end, capture_output=True, text=True, check=False, timeout=60)
    finally:
        os.close(terminal)
        os.close(end)
    return ran.returncode, ran.stdout, ran.stderr


Steering = Callable[[Api, Callable[[str], Person]], Awaitable[None]]


def steered(story: Steering, data: Path) -> None:
    """Run a story; its second argument makes a person from a token."""

    async def main(api: Api) -> None:
        http = Http(api.parts.server, keep_alive_s=60)
        async with listening(http.connection) as url:
            try:
                await story(api, lambda token: Person(url, data, token))
            finally:
                await http.stop(patience_s=1)

    tell(main, data)


async def acknowledge(api: Api, name: str, *controllers: str, **status: Any) -> Obj:
    """What controllers report of an override's present generation."""
    path = f"{OWN}/scheduleroverrides/{name}"
    current = (await api.get(path)).obj
    entries = [
        {
            "controller": controller,
            "state": "Honoring",
            "observedGeneration": current["metadata"]["generation"],
            "cacheRevision": 7,
        }
        for controller in controllers
    ]
    answer = await api.patch(f"{path}/status", {"status": {"acknowledgements": entries, **status}})
    assert answer.status == 200, answer.obj
    reported: Obj = answer.obj
    return reported
