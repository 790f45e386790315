"""The example of replicas that stay pending after a rollback, run as a user runs it, with a drawn seed."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "pending_after_rollback.py"


@pytest.mark.live
@pytest.mark.full  # `fathom demo` tells the same incident in every run.
def test_status_why_and_timeline_show_that_the_scheduler_does_not_know_the_raised_quota(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    command = [sys.executable, str(EXAMPLE), "--seed", str(seed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"seed {seed}\n{done.stdout}\n{done.stderr}"
    assert done.stdout.rstrip().endswith(f"seed {seed}: as it should be")
