"""Run the scheduler and the controllers in one process, as `fathom up` does: two Domains, one interpreter.

Each still has its own lease, recording and crash domain; when one ends, both end, and the supervisor restarts
them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from fathom.cli.cluster.controllers import run_controllers
from fathom.cli.cluster.journals import opened_journal
from fathom.cli.cluster.metrics import measured
from fathom.cli.cluster.scheduler import run_scheduler
from fathom.cli.cluster.serve import run_on_uvloop, server_at
from fathom.controllers.all import CONTROLLERS, SUMMARY
from fathom.seams.log import JsonLog
from fathom.seams.outside import live
from fathom.stopping import stop_event
from fathom.traces.opened import opened_traces, traced

PARTS = ("scheduler", "controllers")


def serve_deciders(
    *, scheduler: Path, controllers: Path, data: Path, record: bool, metrics_address: str
) -> None:
    address, where = metrics_address, str(data.absolute())

    async def run() -> None:
        stop, log, server = stop_event(), JsonLog(sys.stderr, live().clock), server_at(scheduler)
        with (
            opened_traces(os.environ, log) as traces,
            opened_journal(data, PARTS[0], log) as journal,
            opened_journal(data, PARTS[1], log) as second,
        ):
            published = traced(journal, traces, PARTS[0])
            async with (
                measured(
                    "deciders",
                    PARTS,
                    server,
                    address=address,
                    where=where,
                    log=log,
                    journal=published,
                    traces=traces,
                ) as registry,  # fmt: skip
                asyncio.TaskGroup() as group,
            ):
                first_part, second_part = map(registry.part, PARTS)
                scheduling = run_scheduler(
                    scheduler, stop, journal=journal, data=data, record=record, metrics=first_part,
                    traces=traces,
                )  # fmt: skip
                group.create_task(scheduling)
                controlling = run_controllers(
                    controllers,
                    stop,
                    journal=second,
                    only=(*CONTROLLERS, SUMMARY),
                    data=data,
                    record=record,
                    metrics=second_part,
                    traces=traces,
                )
                group.create_task(controlling)

    run_on_uvloop(run())
