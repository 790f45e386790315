"""Record an incident of the present code, for `test_stored_incidents.py`:

python -m tests.replay.store_incident tests/replay/artifacts/NAME.incident
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.replay.recorded_world import record_incident

from fathom.cli.main import run
from fathom.model.times import micro_timestamp


def main(file: str) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "data"
        until = micro_timestamp(record_incident(data).ended_ns)
        window = ["--around", "deployment/web", "--window", "1h", "--until", until]
        return run(["record", "export", *window, "--out", file, "--data", str(data)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
