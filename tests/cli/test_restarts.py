"""How soon the supervisor starts a part again that has ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.cli.test_up import CLUSTER, children, up

from fathom.supervise import RESTART_S_MIN

KILLS = 10


@pytest.mark.xfail(strict=True, reason="it is started again ever more seldom")
def test_an_api_server_that_is_killed_again_and_again_is_back_at_once_each_time(tmp_path: Path) -> None:
    with up(tmp_path / "data", command=CLUSTER) as (process, _):
        assert process.stdout is not None
        for _ in range(KILLS):
            os.kill(children(process)["api"], signal.SIGKILL)
            said = ""
            while said != "api is ready again\n":
                said = process.stdout.readline()
                assert said, "the supervisor has ended"
                if said.startswith("api was killed"):
                    assert said == f"api was killed by SIGKILL; it is started again in {RESTART_S_MIN} s\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
