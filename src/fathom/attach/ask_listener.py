"""Listens for kube-apiserver: TLS, the cluster's word on whom to believe, our CA in the APIService.

    ConfigMap of kube-system ──> FrontProxy ──> a TLS context that knows its CA ──> AskApi, on the copy
    our CA ──patch──> APIService.spec.caBundle

A changed ConfigMap begins a new listener: connections that an old CA let in end.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from typing import TYPE_CHECKING

import msgspec

from fathom.api.auth.certificates import Pki, PkiError, ensure_pki
from fathom.api.auth.tls import without_authority
from fathom.api.http import Http
from fathom.attach.ask_api import AskApi
from fathom.attach.ask_objects import API_SERVICE, API_SERVICES, SERVER_NAME, SERVICE, AskAddress
from fathom.attach.front_proxy import NAME, NAMESPACE, FrontProxy, NoFrontProxy, front_proxy_of
from fathom.attach.installed import MANAGED_BY, OURS
from fathom.attach.installing import why_not
from fathom.attach.reviewed_access import Reviews
from fathom.client.api import Api, Resource
from fathom.client.http import ServerAddress
from fathom.client.once import api_of
from fathom.client.outcomes import Committed
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import ApiError
from fathom.model.objects import labels_of, lookup, uid_of
from fathom.model.resources import SERVICES, SLICES
from fathom.seams.log import Log
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.serve import Running

CONFIG_MAPS = Resource("", "v1", "configmaps")
RETRY_S = 2.0
LOOK_S = 30.0  # How long a CA that the cluster has withdrawn may still be believed.
KEEP_ALIVE_S = 120.0
STOP_S = 3.0
BACKLOG = 128  # One client connects: the cluster's API servers.
PKI = "ask"  # A directory of its own: another CA than that of the copy, which has users.


def listen(address: AskAddress) -> socket.socket:
    """Raises OSError."""
    host = address.host or "::"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if address.in_cluster and not socket.has_dualstack_ipv6():
        host, family = "0.0.0.0", socket.AF_INET
    dual = address.in_cluster and family == socket.AF_INET6
    return socket.create_server((host, address.port), family=family, backlog=BACKLOG, dualstack_ipv6=dual)


def tls_context(pki: Pki, proxy: FrontProxy) -> ssl.SSLContext:
    """Who shows a certificate must have it from the front proxy's CA; who shows none is refused by
    `FrontProxy`, with a Status, but for health. Raises NoFrontProxy."""
    context = without_authority()
    context.load_cert_chain(pki.server_file)
    try:
        context.load_verify_locations(cadata=proxy.authority)
    except (ssl.SSLError, ValueError) as error:
        raise NoFrontProxy(f"the CA in {NAMESPACE}/{NAME} cannot be used: {error}") from None
    return context


class AskListener:
    """Serves the group for as long as the copy runs."""

    def __init__(self, address: AskAddress, listener: socket.socket) -> None:
        self._address = address
        self._listener = listener
        self._open: OpenListener | None = None
        self._problem = ""  # Why nobody is served, as it was said last.

    async def run(self, running: Running, server: ServerAddress, synced: asyncio.Event) -> None:
        """Until cancelled. The group is there at once: without it, the cluster could delete no namespace
        while its objects are copied."""
        async with api_of(server) as api:
            try:
                while True:
                    await self._look(running, api, synced)
                    await asyncio.sleep(LOOK_S if self._open is not None else RETRY_S)
            finally:
                await self._close()
                self._listener.close()
                if not self._address.in_cluster:
                    await withdraw(api)

    async def _look(self, running: Running, api: Api, synced: asyncio.Event) -> None:
        """Serve as the cluster's configuration says now. Where it cannot be read, the last one stays."""
        try:
            proxy = front_proxy_of(await api.get(CONFIG_MAPS, NAMESPACE, NAME))
            pki = ensure_pki(running.data / PKI, [SERVER_NAME], clock=running.outside.clock)
            await self._serve(running, api, synced, proxy, pki)
            await publish_authority(api, pki)
        except NoFrontProxy as error:
            await self._close()  # What vouched before does not any more.
            self._complain(running.log, str(error))
        except (ApiError, NotPublished, PkiError, OSError) as error:
            self._complain(running.log, str(error))
        else:
            self._problem = ""

    async def _serve(
        self, running: Running, api: Api, synced: asyncio.Event, proxy: FrontProxy, pki: Pki
    ) -> None:
        """Raises NoFrontProxy."""
        made_ns = pki.server_file.stat().st_mtime_ns
        if self._open is not None and self._open.of == (proxy, made_ns):
            return
        context = tls_context(pki, proxy)
        await self._close()
        views, core = running.parts.questions, running.parts.core
        assert views is not None  # A copy always answers questions.
        reviews = Reviews(api, running.outside.clock)
        ask_api = AskApi(core, views, reviews, proxy, synced=synced, log=running.log)
        http = Http(ask_api, keep_alive_s=KEEP_ALIVE_S)
        listening = await asyncio.get_running_loop().create_server(
            http.connection, sock=self._listener.dup(), ssl=context, backlog=BACKLOG
        )
        self._open = OpenListener((proxy, made_ns), http, listening)

    async def _close(self) -> None:
        if self._open is not None:
            self._open.listening.close()
            await self._open.http.stop(patience_s=STOP_S)
            self._open = None

    def _complain(self, log: Log, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.warn("kubectl's questions are not served", error=problem)
            say(f"warning: kubectl's questions are not served: {problem}")


class OpenListener(msgspec.Struct, frozen=True):
    of: tuple[FrontProxy, int]  # Whom it believes, and when its certificate was made.
    http: Http
    listening: asyncio.Server


class NotPublished(Exception):
    """One line for the operator."""


async def publish_authority(api: Api, pki: Pki) -> None:
    """Tell the cluster's server our CA, where it has another. Raises NotPublished, ApiError."""
    bundle = b64encode(pki.ca_pem).decode()
    current = await api.get(API_SERVICES, "", API_SERVICE)
    if current is None:
        raise NotPublished(f"there is no APIService {API_SERVICE}: start `fathom attach` again to install it")
    if lookup(current, "spec", "caBundle") == bundle:
        return
    patch = {"metadata": {"uid": uid_of(current)}, "spec": {"caBundle": bundle}}
    outcome = await api.patch(API_SERVICES, "", API_SERVICE, patch)
    if not isinstance(outcome, Committed):
        raise NotPublished(f"APIService {API_SERVICE} does not take our CA: {why_not(outcome)}")


# In this order: what leads to us before where it leads to.
PRESENCE = (
    ("APIService", API_SERVICES, "", API_SERVICE),
    ("EndpointSlice", SLICES, SYSTEM_NAMESPACE, SERVICE),
    ("Service", SERVICES, SYSTEM_NAMESPACE, SERVICE),
)


async def withdraw(api: Api) -> None:
    """Remove what leads to us. While an APIService is there and nobody answers, the cluster's server cannot
    list all kinds, and deletes no namespace. Only what is ours: others may have made theirs meanwhile."""
    for kind, resource, namespace, name in PRESENCE:
        try:
            current = await api.get(resource, namespace, name)
            if current is None or labels_of(current).get(MANAGED_BY) != OURS:
                continue
            outcome = await api.delete(resource, namespace, name, uid=uid_of(current))
        except ApiError as error:
            say(f"warning: {kind} {name} stays, and leads to nobody: {error.message}")
            continue
        if isinstance(outcome, Committed):
            say(f"removed {kind.lower()} {name}")
        else:
            say(f"warning: {kind} {name} stays, and leads to nobody: {why_not(outcome)}")
