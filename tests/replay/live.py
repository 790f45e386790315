"""A recorded controller process, to be killed.

python -m tests.replay.live ENTRY URL TAPE_DIRECTORY [OPTIONS_JSON]
"""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from fathom.client.http import HttpBackend, ServerAddress
from fathom.record.journal import DiskJournal
from fathom.record.recorded_process import RecordedProcess
from fathom.record.tape import BUDGET_BYTES, DiskTape
from fathom.seams.host import Host
from fathom.seams.log import JsonLog
from fathom.seams.outside import live


async def main(entry: str, url: str, directory: Path, options: dict[str, Any]) -> None:
    outside = live()
    log = JsonLog(sys.stdout, outside.clock)
    server = ServerAddress(url, ssl.create_default_context(), lambda: ())

    def connect(host: Host) -> HttpBackend:
        return HttpBackend(host, server)

    budget_bytes = options.pop("budget_bytes", BUDGET_BYTES)
    flight = RecordedProcess(
        entry,
        options,
        connect=connect,
        outside=outside,
        tape=DiskTape(directory, budget_bytes=budget_bytes, log=log),
        journal=DiskJournal(directory / "journal"),
        log=log,
        age_s_min=options.pop("age_s_min", 60.0),
    )
    await flight.run()


if __name__ == "__main__":
    chosen = msgspec.json.decode(sys.argv[4]) if len(sys.argv) > 4 else {}
    uvloop.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), chosen))
