"""Processes that can be asked: a journal, a registry and the real HTTPS endpoint, on the test's own loop."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.api.harness import Api, serving

from fathom.agent.api_server_link import AgentsOverHttps
from fathom.api.auth.certificates import Pki, ensure_pki
from fathom.ask.collect import Sources
from fathom.endpoint.publish import Published, slice_of
from fathom.endpoint.server import ProcessEndpoint, tls_of
from fathom.metrics.registry import Registry
from fathom.model.well_known import CERTIFICATE_ANNOTATION
from fathom.record.audit_index import AuditIndex
from fathom.record.journal import DiskJournal
from fathom.record.journal_reader import JournalReader
from fathom.seams.outside import SystemClock
from fathom.serving_certificate import self_signed

SLICES = "/apis/discovery.k8s.io/v1/namespaces/fathom-system/endpointslices"
OWN = "/apis/fathom.dev/v1alpha1"


class AskedProcess:
    """One process of the control plane."""

    def __init__(self, name: str, part: str, directory: Path, pki: Pki) -> None:
        self.name, self.part = name, part
        self.registry = Registry()
        self.journal = DiskJournal(directory)
        self.registry.part(part).keep_journal(directory)
        self._endpoint = ProcessEndpoint(self.registry, name)
        self._pki = pki

    async def start(self, api: Api, *, certificate: str = "") -> None:
        """Listen, and publish the address; with another certificate than its own, if one is given."""
        port, own = await self._listen()
        published = Published(
            process=self.name,
            parts=(self.part,),
            where="here",
            address="127.0.0.1",
            port=port,
            certificate=certificate or own,
        )
        answer = await api.post(SLICES, slice_of(published))
        assert answer.status == 201, answer.obj

    async def start_as_agent(self, api: Api) -> None:
        """Listen, and publish the address in the Node of this name."""
        port, certificate = await self._listen()
        meta = {"name": self.name, "annotations": {CERTIFICATE_ANNOTATION: certificate}}
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        node = {"kind": "Node", "apiVersion": "v1", "metadata": meta, "status": status}
        assert (await api.post("/api/v1/nodes", node)).status == 201
        assert (await api.put(f"/api/v1/nodes/{self.name}/status", node)).status == 200

    async def _listen(self) -> tuple[int, str]:
        """Port and certificate."""
        listener = socket.create_server(("127.0.0.1", 0))
        pair = self_signed(f"system:fathom:{self.name}", "127.0.0.1", now_ns=SystemClock().now_ns())
        trusted = ssl.create_default_context(cadata=self._pki.ca_pem.decode())
        await self._endpoint.listen(listener, tls_of(pair, trusted))
        return int(listener.getsockname()[1]), pair.certificate

    async def stop(self) -> None:
        """The process ends; what it published stays, as after a kill."""
        await self._endpoint.close()


@asynccontextmanager
async def asked_server(data: Path) -> AsyncIterator[tuple[Api, Pki]]:
    """An API server that can ask processes, with a journal of its own."""
    clock = SystemClock()
    pki = ensure_pki(data, clock=clock)
    agents = AgentsOverHttps(pki, clock)
    own = JournalReader(data / "journal" / "housekeeping")
    sources = Sources(journals={"housekeeping": own}, audit=AuditIndex(data / "audit"))
    try:
        async with serving(data, sources=sources, agents=agents) as api:
            yield api, pki
    finally:
        await agents.close()
