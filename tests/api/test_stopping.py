"""Two servers on one store, over TLS, stopped and started in turn: no request of their clients is lost."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
from pathlib import Path

import pytest
from tests.api.harness import ADMIN, Api, config_map, serving
from tests.chaos.endpoints import Endpoints

from fathom.api.auth.certificates import Pki, ensure_pki
from fathom.api.auth.tls import server_context
from fathom.api.http import Http
from fathom.seams.outside import SystemClock
from fathom.serve import stop_serving
from fathom.store.memory import MemoryStore

pytestmark = pytest.mark.slow  # They wait for seconds.

MAPS = "/api/v1/namespaces/default/configmaps"


class Listening:
    """An API server's sockets. It can be stopped, and started again at the same place."""

    def __init__(self, api: Api, pki: Pki) -> None:
        self._api, self._pki = api, pki
        self.port = 0

    async def start(self) -> None:
        core = self._api.core
        core.draining = core.stopping = False
        self._http = Http(self._api.parts.server, keep_alive_s=60)
        self._server = await asyncio.get_running_loop().create_server(
            self._http.connection, "127.0.0.1", self.port, ssl=server_context(self._pki)
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self, drain_s: float) -> None:
        await stop_serving(self._api.core, self._http, self._server, drain_s=drain_s)


class Writer(threading.Thread):
    """Writes and reads back, one request after the other, until it is over."""

    def __init__(self, name: str, client: Endpoints) -> None:
        super().__init__(daemon=True)
        self.prefix, self.client = name, client
        self.over = threading.Event()
        self.written: list[str] = []

    def run(self) -> None:
        while not self.over.is_set():
            name = f"{self.prefix}{len(self.written)}"
            if self.client.call("POST", MAPS, config_map(name), token=ADMIN) == 201:
                self.written.append(name)
            self.client.call("GET", f"{MAPS}/{name}", token=ADMIN)


def test_servers_that_are_restarted_in_turn_lose_no_request(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "other").mkdir()
        store = MemoryStore()
        async with (
            serving(tmp_path, store, shared_store=True) as one,
            serving(tmp_path / "other", store, shared_store=True) as other,
        ):
            pki = ensure_pki(tmp_path, clock=SystemClock())
            pair = [Listening(one, pki), Listening(other, pki)]
            for server in pair:
                await server.start()
            tls = ssl.create_default_context(cafile=str(pki.ca_file))
            places = [(f"127.0.0.1:{server.port}", tls) for server in pair]
            writers = [Writer("a", Endpoints(places)), Writer("b", Endpoints(places[::-1]))]
            for writer in writers:
                writer.start()
            for server in pair * 2:
                before = sum(len(writer.written) for writer in writers)
                await server.stop(0.3)
                while sum(len(writer.written) for writer in writers) < before + 10:
                    await asyncio.sleep(0.01)
                await server.start()
            for writer in writers:
                writer.over.set()
                await asyncio.to_thread(writer.join, 20)
            assert [writer.client.failed for writer in writers] == [[], []]
            listed = (await one.get(MAPS)).obj["items"]
            names = {item["metadata"]["name"] for item in listed}
            assert names == {name for writer in writers for name in writer.written}
            for server in pair:
                await server.stop(0)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_server_says_that_it_stops_before_it_refuses_anything(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as api:
            server = Listening(api, ensure_pki(tmp_path, clock=SystemClock()))
            await server.start()
            revision = (await api.get(MAPS)).obj["metadata"]["resourceVersion"]
            watch = await api.watch(f"{MAPS}?resourceVersion={revision}")
            idle = await asyncio.open_connection("127.0.0.1", server.port)  # Keeps the server draining.
            stopping = asyncio.create_task(server.stop(0.5))
            await asyncio.sleep(0.05)
            answer = await api.get("/readyz")
            assert (answer.status, b"[-]shutdown failed: the server is stopping" in answer.obj) == (500, True)
            assert (await api.post(MAPS, config_map("late"))).status == 201
            assert await watch.take(1) == [("ADDED", "late")]
            assert await watch.next(20) is None
            idle[1].close()
            await stopping

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_client_in_its_handshake_is_waited_for(tmp_path: Path) -> None:
    """It sends its request as soon as that is over: the store must not be closed before."""

    async def story() -> None:
        async with serving(tmp_path) as api:
            http = Http(api.parts.server, keep_alive_s=5)
            accepted = http.connection()
            draining = asyncio.create_task(http.drain(seconds=30))
            await asyncio.sleep(0.1)
            assert not draining.done()
            del accepted  # The handshake has failed.
            gc.collect()
            await asyncio.wait_for(draining, 5)

    asyncio.run(story())
