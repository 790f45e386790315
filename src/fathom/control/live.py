"""Controllers against a real server: the wiring, and a command to start them.

    python -m fathom.control.live greeting:Greetings --kubeconfig F --lease default/greetings --record DIR

Everything they receive at the start is on the tape; `--record` keeps it, and `fathom replay` runs it again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import uvloop

from fathom import __version__
from fathom.client.http import HttpBackend, ServerAddress
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.servers import find_server
from fathom.control.process import ControllerSettings, load_controller
from fathom.metrics.registry import NOT_MEASURED
from fathom.metrics.registry import Part as MetricsPart
from fathom.model.decision import Journal
from fathom.record.journal import DiskJournal
from fathom.record.journals import JOURNALS
from fathom.record.kept_windows import KeptWindows
from fathom.record.recorded_process import EndedByItself, RecordedProcess, fly
from fathom.record.redact import secret_data
from fathom.record.tape import DiskTape
from fathom.record.tape_list import ALONE
from fathom.seams.log import JsonLog, Log
from fathom.seams.outside import Outside, live
from fathom.seams.process import NoEntry

ENTRY = "controllers"


async def run_live(
    settings: ControllerSettings,
    server: ServerAddress,
    *,
    stop: asyncio.Event,
    outside: Outside | None = None,
    tape: DiskTape | None = None,
    held: Path | None = None,
    journal: Journal | None = None,
    log: Log | None = None,
    metrics: MetricsPart = NOT_MEASURED,
) -> None:
    """Runs on the host's loop until `stop` is set and running passes have finished. Raises the error that
    made it impossible to go on. `held`: see RecordedProcess."""
    for name in settings.controllers:
        load_controller(name)  # Fail now, while the error can still be reported.
    flight = flight_to(
        server,
        ENTRY,
        settings,
        outside=outside,
        tape=tape,
        held=held,
        journal=journal,
        log=log,
        metrics=metrics,
    )
    await fly(flight, stop, component="the controllers")


class Drained(Protocol):
    """Settings of a process that finishes its running work before it ends."""

    @property
    def drain_s(self) -> float: ...


def flight_to(
    server: ServerAddress,
    entry: str,
    settings: Drained,
    *,
    outside: Outside | None = None,
    tape: DiskTape | None = None,
    held: Path | None = None,
    journal: Journal | None = None,
    log: Log | None = None,
    metrics: MetricsPart = NOT_MEASURED,
) -> RecordedProcess:
    """A deciding process that is connected to this server."""
    return RecordedProcess(
        entry,
        msgspec.to_builtins(settings),
        connect=lambda host: HttpBackend(host, server),
        outside=outside or live(),
        tape=tape,
        held=held,
        about={"server": server.url},
        journal=journal,
        log=log,
        redact=secret_data if tape is not None else None,
        metrics=metrics,
        grace_s=settings.drain_s + 5.0,
    )


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sys.path.insert(0, str(Path.cwd()))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_main(options, os.environ if environ is None else environ))
    except (BadKubeconfig, NoEntry, EndedByItself) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


async def _main(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    outside = live()
    log = JsonLog(sys.stderr, outside.clock)
    server = find_server(options.kubeconfig, clock=outside.clock, environ=environ)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    record: Path | None = options.record
    kept = KeptWindows(record, ALONE) if record else None
    tape = DiskTape(record / ALONE, log=log, kept=kept) if record else None
    journal = DiskJournal(record / JOURNALS, log=log, kept=kept) if record else None
    try:
        await run_live(
            _settings(options, server),
            server,
            stop=stop,
            outside=outside,
            tape=tape,
            journal=journal,
            log=log,
        )
    finally:
        for recording in (tape, journal):
            if recording is not None:
                recording.close()


def _settings(options: argparse.Namespace, server: ServerAddress) -> ControllerSettings:
    return ControllerSettings(
        controllers=tuple(options.controllers),
        target=server.url,
        who=socket.gethostname(),
        lease=options.lease,
        namespace=options.namespace,
        workers=options.workers,
        user_agent=f"fathom/{__version__} {' '.join(options.controllers)}",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fathom.control.live", description=_title())
    parser.add_argument("controllers", nargs="+", metavar="module:Class")
    parser.add_argument(
        "--kubeconfig", type=Path, help="default: as for kubectl, or the pod's service account"
    )
    parser.add_argument("--namespace", default="", help="watch only this namespace")
    parser.add_argument(
        "--lease", default="", metavar="NAMESPACE/NAME", help="act only while holding this lease"
    )
    parser.add_argument("--workers", type=_positive, default=4, help="number of workers per controller")
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="write a tape and a journal to this directory"
    )
    return parser


def _title() -> str:
    return str(__doc__).partition("\n")[0]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
