"""Run the gateway for a command: with which table, journal and metrics."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fathom.cli.cluster.journals import opened_journal
from fathom.cli.cluster.metrics import measured
from fathom.cli.cluster.serve import run_on_uvloop, server_at
from fathom.cli.places import data_beside
from fathom.gateway.live import run_gateway
from fathom.kept_sockets import inherited
from fathom.record.journals import SMALL_BUDGET_BYTES
from fathom.record.metrics import measure_records
from fathom.record.tape import DiskTape
from fathom.record.tape_list import directory_of
from fathom.seams.log import JsonLog
from fathom.seams.outside import live
from fathom.stopping import stop_event
from fathom.traces.opened import opened_traces, traced

WHO = "gateway"


def serve_gateway(
    kubeconfig: Path | None, *, remember: Path | None, data: Path | None, record: bool, metrics_address: str
) -> None:
    kept = inherited(os.environ)

    async def run() -> None:
        log, stop, server = JsonLog(sys.stderr, live().clock), stop_event(), server_at(kubeconfig)
        folder, where = data or data_beside(kubeconfig), str(remember or kubeconfig or "")
        with (
            opened_traces(os.environ, log) as traces,
            opened_journal(folder, WHO, log, budget_bytes=SMALL_BUDGET_BYTES) as journal,
        ):
            recorded = traced(journal, traces, WHO)
            async with measured(
                WHO, (WHO,), server, address=metrics_address, where=where, log=log, journal=recorded,
                traces=traces,
            ) as registry:  # fmt: skip
                part = registry.part(WHO)
                tape = DiskTape(directory_of(folder, WHO), log=log, kept=journal.kept) if record else None
                measure_records(part, journal, tape)
                try:
                    await run_gateway(
                        server,
                        stop=stop,
                        log=log,
                        remember=remember,
                        tape=tape,
                        journal=recorded,
                        metrics=part,
                        kept=kept,
                    )
                finally:
                    if tape is not None:
                        tape.close()

    run_on_uvloop(run())
