"""The objects by which others find this API server, and the CAs that it trusts: written at its start.

Service, Endpoints, EndpointSlice `kubernetes`      where pods reach it
ConfigMap `extension-apiserver-authentication`      the CAs that extension API servers trust
"""

from __future__ import annotations

import asyncio
import socket

from fathom.api import extension_authentication
from fathom.api.own_service import own_endpoints, own_service, own_slice
from fathom.assembly import STARTED, Parts
from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.model.resource_names import RBAC_GROUP
from fathom.seams.log import Log

NAMESPACE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
ENDPOINTS = f"{NAMESPACE}/endpoints"
OWN_SLICES = "labelSelector=kubernetes.io/service-name%3Dkubernetes"
ANY_ADDRESS = ("0.0.0.0", "::")
WITHDRAW_S = 1.0
STOPPED = WakeCause("event", "the API server stops")


def listens_everywhere(listener: socket.socket) -> bool:
    """On every address of its machine. Such servers are all at 127.0.0.1 for the pods beside them, and share
    a slice."""
    return listener.getsockname()[0] in ANY_ADDRESS


def reachable_at(listener: socket.socket) -> tuple[str, int]:
    host, port = listener.getsockname()[:2]
    return ("127.0.0.1" if listens_everywhere(listener) else host), port


class PublishedObjects:
    def __init__(
        self, parts: Parts, reachable: tuple[str, int], service: tuple[str, int], *, log: Log
    ) -> None:
        """`reachable`: where we listen; `service`: address and port at which pods reach us."""
        self._parts = parts
        self._reachable = reachable
        self._service = service
        self._slice = own_slice(*reachable)
        self._log = log

    async def publish(self) -> None:
        """Where pods reach us. Slices that an earlier run left, with another port, are deleted."""
        writer = self._parts.writer("own-service")
        why = "it may name the address of an earlier start"
        old = [(SLICES, name) for name in await self._old_slices()]
        for folder, name in (*old, (ENDPOINTS, "kubernetes")):
            with ignored(404):
                subject = _subject(folder, {"metadata": {"namespace": "default", "name": name}})
                await writer.write("DELETE", f"{folder}/{name}", subject, cause=STARTED, why=why)
        to_create = [(ENDPOINTS, own_endpoints(*self._reachable)), (SLICES, self._slice)]
        if await writer.read(f"{NAMESPACE}/services/kubernetes") is None:
            to_create.append((f"{NAMESPACE}/services", own_service(*self._service)))
        for path, obj in to_create:
            await _create(writer, path, obj, "pods reach the API server by it")

    async def _old_slices(self) -> list[str]:
        listed = await self._parts.client.call("GET", SLICES, query=OWN_SLICES)
        names = [str(item["metadata"]["name"]) for item in listed["items"]]
        if self._parts.core.shared_store:  # The other slices belong to other servers.
            return [name for name in names if name == self._slice["metadata"]["name"]]
        return names

    async def publish_authorities(self, ca: str, front_proxy: str) -> None:
        """The CAs that extension API servers trust, as PEM. Manual changes are reverted."""
        writer = self._parts.writer("authorities")
        rbac = f"/apis/{RBAC_GROUP}/v1/namespaces/{extension_authentication.NAMESPACE}"
        for folder, wanted in (
            (
                f"/api/v1/namespaces/{extension_authentication.NAMESPACE}/configmaps",
                extension_authentication.config_map(ca, front_proxy),
            ),
            (f"{rbac}/roles", extension_authentication.reader_role()),
            (f"{rbac}/rolebindings", extension_authentication.reader_binding()),
        ):
            await _put_right(writer, folder, wanted)

    async def withdraw(self) -> None:
        """Delete the slice that leads pods to us: the other servers have theirs."""
        path, why = f"{SLICES}/{self._slice['metadata']['name']}", "the API server stops"
        try:
            async with asyncio.timeout(WITHDRAW_S):
                with ignored(404):
                    writer = self._parts.writer("own-service")
                    await writer.write("DELETE", path, _subject(SLICES, self._slice), cause=STOPPED, why=why)
        except (ApiError, TimeoutError) as error:  # The next start of a server with this address deletes it.
            self._log.warn("the server's EndpointSlice was not deleted", error=str(error))


async def _put_right(writer: HousekeepingWriter, folder: str, wanted: Obj) -> None:
    path = f"{folder}/{wanted['metadata']['name']}"
    existing = await writer.read(path)
    repaired = extension_authentication.put_right(existing, wanted)
    if repaired is not None and existing is None:
        await _create(writer, folder, repaired, "extension API servers read it")
    elif repaired is not None:
        subject, why = _subject(folder, repaired), "it was changed by hand"
        with ignored(409):  # Another server was faster.
            await writer.write("PUT", path, subject, cause=STARTED, why=why, body=repaired)


async def _create(writer: HousekeepingWriter, folder: str, obj: Obj, why: str) -> None:
    with ignored(409):  # It exists, or another server created it.
        await writer.write("POST", folder, _subject(folder, obj), cause=STARTED, why=why, body=obj)


def _subject(folder: str, obj: Obj) -> Subject:
    """`folder`: the path of the collection, '/apis/GROUP/VERSION/…' or '/api/v1/…'."""
    parts, meta = folder.strip("/").split("/"), obj["metadata"]
    group = f".{parts[1]}" if parts[0] == "apis" else ""
    return Subject(f"{parts[-1]}{group}", str(meta.get("namespace") or ""), str(meta["name"]))
