"""The scheduler and the controllers in one process, as `fathom up` runs them: two Domains, one interpreter.

Each is a leader, a recorder and a crash domain of its own all the same; what ends one ends both, and the
supervisor starts them again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from fathom.cli.controllers import run_controllers
from fathom.cli.scheduling import run_scheduler
from fathom.cli.serve import run_on_uvloop
from fathom.controllers.all import CONTROLLERS, SUMMARY
from fathom.stopping import stop_event


def serve_deciders(*, scheduler: Path, controllers: Path, data: Path, record: bool) -> None:
    async def run() -> None:
        stop = stop_event()
        everybody = (*CONTROLLERS, SUMMARY)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_scheduler(scheduler, stop, data=data, record=record))
            group.create_task(run_controllers(controllers, stop, only=everybody, data=data, record=record))

    run_on_uvloop(run())
