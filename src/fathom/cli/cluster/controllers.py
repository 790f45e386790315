"""Run the controllers for a command: which of them, with which lease, journal, tape and metrics."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from fathom import __version__
from fathom.cli.cluster.journals import opened_journal
from fathom.cli.cluster.leases import check_lease, check_namespace
from fathom.cli.cluster.metrics import measured
from fathom.cli.cluster.serve import run_on_uvloop, server_at
from fathom.cli.places import data_beside
from fathom.cli.problem import Problem
from fathom.control.live import run_live
from fathom.control.process import ControllerSettings
from fathom.controllers.all import CONTROLLERS
from fathom.metrics.registry import NOT_MEASURED
from fathom.metrics.registry import Part as MetricsPart
from fathom.record.journal import DiskJournal
from fathom.record.metrics import measure_records
from fathom.record.recorded_process import EndedByItself
from fathom.record.ring import RingBusy
from fathom.record.tape import DiskTape
from fathom.record.tape_list import directory_of as tape_directory
from fathom.seams.log import JsonLog
from fathom.seams.outside import live
from fathom.seams.process import NoEntry
from fathom.stopping import stop_event
from fathom.traces.opened import opened_traces, traced
from fathom.traces.queue import SpanQueue

WHO = "controllers"
DEFAULT_LEASE = "fathom-system/controllers"


def serve_controllers(
    kubeconfig: Path | None,
    *,
    only: tuple[str, ...],
    data: Path | None,
    lease: str,
    record: bool,
    metrics_address: str,
) -> None:
    async def run() -> None:
        stop, log, server = stop_event(), JsonLog(sys.stderr, live().clock), server_at(kubeconfig)
        folder = data or data_beside(kubeconfig)
        with opened_traces(os.environ, log) as traces, opened_journal(folder, WHO, log) as journal:
            async with measured(
                WHO,
                (WHO,),
                server,
                address=metrics_address,
                where=str(folder.absolute()),
                log=log,
                journal=traced(journal, traces, WHO),
                traces=traces,
            ) as registry:
                part = registry.part(WHO)
                await run_controllers(
                    kubeconfig,
                    stop,
                    journal=journal,
                    only=only,
                    data=data,
                    lease=lease,
                    record=record,
                    metrics=part,
                    traces=traces,
                )

    run_on_uvloop(run())


async def run_controllers(
    kubeconfig: Path | None,
    stop: asyncio.Event,
    *,
    journal: DiskJournal,
    only: tuple[str, ...] = (),
    data: Path | None = None,
    lease: str = DEFAULT_LEASE,
    record: bool = False,
    metrics: MetricsPart = NOT_MEASURED,
    traces: SpanQueue | None = None,
) -> None:
    """Run on the current loop until `stop` is set. Raises Problem."""
    if lease and lease.count("/") != 1:
        raise Problem(f"--lease must read NAMESPACE/NAME, not {lease!r}")
    server = server_at(kubeconfig)  # First: nothing may be created beside a missing kubeconfig.
    if lease != DEFAULT_LEASE:
        await check_lease(server, lease)
    await check_namespace(server, lease)
    folder = data or data_beside(kubeconfig)
    log = JsonLog(sys.stderr, live().clock)
    try:
        tape = DiskTape(tape_directory(folder, WHO), log=log, kept=journal.kept) if record else None
    except RingBusy as error:
        raise Problem(f"{error}: are these controllers running already?") from error
    measure_records(metrics, journal, tape)
    settings = ControllerSettings(
        controllers=only or CONTROLLERS,
        target=server.url,
        who=socket.gethostname(),
        lease=lease,
        user_agent=f"fathom/{__version__} {WHO}",
        events=True,
        signals="controllers",
    )
    try:
        await run_live(
            settings,
            server,
            stop=stop,
            tape=tape,
            held=journal.directory,
            journal=traced(journal, traces, WHO),
            log=log,
            metrics=metrics,
        )
    except (EndedByItself, NoEntry) as error:
        raise Problem(str(error)) from error
    finally:
        if tape is not None:
            tape.close()
