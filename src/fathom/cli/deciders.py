"""Run the scheduler and the controllers in one process, as `fathom up` does: two Domains, one interpreter.

Each still has its own lease, recording and crash domain; when one ends, both end, and the supervisor restarts
them.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fathom.cli.controllers import run_controllers
from fathom.cli.metrics import measured
from fathom.cli.scheduler import run_scheduler
from fathom.cli.serve import run_on_uvloop, server_at
from fathom.controllers.all import CONTROLLERS, SUMMARY
from fathom.seams.log import JsonLog
from fathom.seams.outside import live
from fathom.stopping import stop_event

PARTS = ("scheduler", "controllers")


def serve_deciders(
    *, scheduler: Path, controllers: Path, data: Path, record: bool, metrics_address: str
) -> None:
    where = str(data.absolute())

    async def run() -> None:
        stop, log, server = stop_event(), JsonLog(sys.stderr, live().clock), server_at(scheduler)
        all_controllers = (*CONTROLLERS, SUMMARY)
        async with (
            measured("deciders", PARTS, server, address=metrics_address, where=where, log=log) as registry,
            asyncio.TaskGroup() as group,
        ):
            scheduler_metrics, controllers_metrics = map(registry.part, PARTS)
            group.create_task(
                run_scheduler(scheduler, stop, data=data, record=record, metrics=scheduler_metrics)
            )
            group.create_task(
                run_controllers(
                    controllers,
                    stop,
                    only=all_controllers,
                    data=data,
                    record=record,
                    metrics=controllers_metrics,
                )
            )

    run_on_uvloop(run())
