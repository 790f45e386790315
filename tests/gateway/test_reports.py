"""A gateway that cannot listen reports it in an Event, which names the decision on record."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from tests.api.harness import Api, serving
from tests.cli.asking import kubeconfig, listening

from fathom.api.http import Http
from fathom.client.servers import find_server
from fathom.gateway.live import run_gateway
from fathom.model.decision import Decision, Outcome, Table
from fathom.model.objects import Obj
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.seams.log import NoLog
from fathom.seams.outside import SystemClock

TAKEN = "127.96.7.9"


class Decisions:
    """A Journal in memory."""

    def __init__(self) -> None:
        self.decisions: dict[str, Decision] = {}

    def decided(self, decision: Decision) -> None:
        self.decisions[decision.id] = decision

    def concluded(self, outcome: Outcome) -> None: ...

    def tabled(self, table: Table) -> None: ...


async def reported(api: Api) -> Obj:
    async with asyncio.timeout(20):
        while True:
            events = (await api.get("/api/v1/namespaces/default/events")).obj["items"]
            if found := [event for event in events if event["reason"] == "NotListening"]:
                first: Obj = found[0]
                return first
            await asyncio.sleep(0.05)


def test_an_address_that_another_process_has_is_reported_with_its_decision(tmp_path: Path) -> None:
    async def story() -> None:
        journal, stop = Decisions(), asyncio.Event()
        with socket.create_server((TAKEN, 0)) as taken:
            async with serving(tmp_path) as api:
                http = Http(api.parts.server, keep_alive_s=60)
                async with listening(http.connection) as url:
                    config = tmp_path / "kubeconfig"
                    config.write_text(str(kubeconfig(url)).replace("'", '"'))
                    server = find_server(config, clock=SystemClock(), environ={})
                    spec = {"clusterIP": TAKEN, "ports": [{"port": taken.getsockname()[1]}]}
                    service = {"metadata": {"name": "web"}, "spec": spec}
                    created = await api.post("/api/v1/namespaces/default/services", service)
                    assert created.status == 201, created.obj
                    gateway = asyncio.create_task(
                        run_gateway(server, stop=stop, log=NoLog(), journal=journal)
                    )
                    event = await reported(api)
                    stop.set()
                    await gateway
                    await http.stop(patience_s=1)
        decision = journal.decisions[event["metadata"]["annotations"][DECISION_ANNOTATION]]
        assert (decision.controller, decision.verdict) == ("gateway", "report")
        assert decision.subject.uid == event["involvedObject"]["uid"] == created.obj["metadata"]["uid"]

    asyncio.run(asyncio.wait_for(story(), 60))
