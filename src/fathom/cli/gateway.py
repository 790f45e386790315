"""Run the gateway for a command: with which table, journal and metrics."""

from __future__ import annotations

import sys
from pathlib import Path

from fathom.cli.kubeconfig import data_beside
from fathom.cli.metrics import measured
from fathom.cli.problem import Problem
from fathom.cli.serve import run_on_uvloop, server_at
from fathom.gateway.live import run_gateway
from fathom.record.journal import DiskJournal
from fathom.record.journals import SMALL_BUDGET_BYTES, journal_directory
from fathom.record.metrics import measure_records
from fathom.record.ring import RingBusy
from fathom.seams.log import JsonLog
from fathom.seams.outside import live
from fathom.stopping import stop_event

WHO = "gateway"


def serve_gateway(
    kubeconfig: Path | None, *, remember: Path | None, data: Path | None, metrics_address: str
) -> None:
    async def run() -> None:
        log, stop, server = JsonLog(sys.stderr, live().clock), stop_event(), server_at(kubeconfig)
        directory = journal_directory(data or data_beside(kubeconfig), WHO)
        try:
            journal = DiskJournal(directory, budget_bytes=SMALL_BUDGET_BYTES, log=log)
        except RingBusy as error:
            raise Problem(f"{error}: is this gateway running already?") from error
        where = str(remember or kubeconfig or "")
        try:
            async with measured(
                WHO, (WHO,), server, address=metrics_address, where=where, log=log
            ) as registry:
                part = registry.part(WHO)
                measure_records(part, journal, None)
                await run_gateway(
                    server, stop=stop, log=log, remember=remember, journal=journal, metrics=part
                )
        finally:
            journal.close()

    run_on_uvloop(run())
