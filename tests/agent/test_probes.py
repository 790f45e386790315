"""One try of an HTTP probe, on a server of this process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from aiohttp import web
from tests.agent.objects import pod

from fathom.agent.host.probes import HostProber
from fathom.agent.host.records import RunRecord
from fathom.agent.runtime import ProbeResult
from fathom.agent.shim import started_at

IP = "127.130.7.2"


async def answer(request: web.Request) -> web.Response:
    way = {"/on": "/well", "/off": "/ill", "/round": "/round", "/away": "http://127.130.7.3:1/ill"}
    if onward := way.get(request.path):
        return web.Response(status=302, headers={"Location": onward})
    return web.Response(status=500 if request.path == "/ill" else 200)


async def probed(path: str, **fields: bool) -> ProbeResult:
    served = web.Application()
    served.router.add_get("/{rest:.*}", answer)
    runner = web.AppRunner(served)
    await runner.setup()
    site = web.TCPSite(runner, IP, 0)
    await site.start()
    port = runner.addresses[0][1]
    me = os.getpid()
    record = RunRecord("u1", "main", 0, 0, "", me, started_at(me), me, started_at(me), 0)
    prober = HostProber(lambda uid, container, attempt: Path())
    try:
        return await prober.probe(record, pod(), {"httpGet": {"path": path, "port": port}, **fields}, IP)
    finally:
        await prober.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("path", "ok"),
    [("/well", True), ("/ill", False), ("/on", True), ("/off", False), ("/away", True), ("/round", False)],
)
def test_who_is_sent_on_is_followed_on_its_own_host(path: str, ok: bool) -> None:
    assert asyncio.run(probed(path)).ok is ok


def test_a_hook_is_well_when_it_was_heard() -> None:
    assert asyncio.run(probed("/ill", hook=True)).ok
