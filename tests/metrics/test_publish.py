"""Where a process serves its metrics is published at the API server, if that takes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.sim.small import passes, running, story

from fathom.client.api import Api
from fathom.control.decision_log import DecisionLog
from fathom.endpoint.publish import Published, keep_published
from fathom.model.decision import NoJournal
from fathom.seams.process import Inside
from fathom.sim.world.faults import Refuse
from fathom.sim.world.world import World


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(f"info {event}")

    def warn(self, event: str, **fields: Any) -> None:
        self.lines.append(f"warn {event}")

    error = warn


FAILED, NEVER = "warn the metrics endpoint cannot be published", "info the metrics endpoint is not published"


@pytest.mark.parametrize(("name", "published", "told"), [("p", 1, [FAILED]), ("no name", 0, [FAILED, NEVER])])
def test_what_the_server_never_takes_is_tried_no_more(name: str, published: int, told: list[str]) -> None:
    """A name that no object can have stands for the addresses that kube-apiserver refuses."""
    log, ended = Told(), []

    async def main(inside: Inside) -> None:
        wanted = Published(
            process=name, parts=("p",), where="here", address="10.0.0.7", port=9, certificate="c"
        )
        decisions = DecisionLog(NoJournal(), prefix="p", controller="p", clock=inside.outside.clock)
        await keep_published(Api(inside.seam), wanted, log, decisions)
        ended.append(asyncio.get_running_loop().time())

    async def is_published(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(300)
        assert len(world.list("endpointslices.discovery.k8s.io", "fathom-system")) == published

    passes(story(is_published), [Refuse(at_s=0, target="worker", match="POST", status=503)])
    assert log.lines == told
    assert bool(ended) == (not published)
