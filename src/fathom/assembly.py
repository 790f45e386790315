"""Assemble one API server for any world: live, in a test, or simulated.

What differs between the worlds comes in `ServerSettings`. Nothing here opens a file or a socket.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine
from ipaddress import IPv4Network
from typing import Any

import msgspec

from fathom import __version__
from fathom.api.admission.addresses import ADDRESSES
from fathom.api.admission.chain import Chain
from fathom.api.admission.plugin import Plugin
from fathom.api.admission.plugins import built_in, load_plugins
from fathom.api.admission.quota import corrected_status
from fathom.api.agent_connections import Agents
from fathom.api.auth.accounts import AccountTokens
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.bootstrap import plan_bootstrap
from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import Tokens, digest
from fathom.api.core import Core
from fathom.api.custom import CustomKinds
from fathom.api.dispatch import Dispatch
from fathom.api.ledger.recount import settle_ledger
from fathom.api.ledger.reporting import tenant_status
from fathom.api.limits import Throttle
from fathom.api.metrics import Metrics, NoMetrics
from fathom.api.request import Request, Response
from fathom.api.resource_usage import USAGE_KINDS
from fathom.api.resources import RegistryResources
from fathom.api.server import ApiServer
from fathom.api.watch_cache import WatchCache
from fathom.api.watch_cache_feed import WatchCacheFeed
from fathom.api.web_page import NoWebPage, WebPage
from fathom.ask.collect import Sources
from fathom.ask.views import AskViews
from fathom.client.local import LocalClient
from fathom.control.decision_log import DecisionLog
from fathom.controllers.housekeeping.controller import Housekeeping
from fathom.controllers.housekeeping.writer import ACCOUNT as HOUSEKEEPER
from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.detect.field_fights import FieldFights
from fathom.kinds.explanation import EXPLANATIONS
from fathom.kube.definitions.own import OWN_KINDS
from fathom.kube.definitions.registry import Registry
from fathom.model.accounts import HOUSEKEEPING
from fathom.model.audit import AuditSink
from fathom.model.cause import WakeCause
from fathom.model.decision import Journal, NoJournal, Subject
from fathom.model.traced import SpanSink
from fathom.model.user import MASTERS, User
from fathom.seams.log import Log
from fathom.seams.outside import Outside
from fathom.store.protocol import Store

STARTED = WakeCause("start", "the API server starts")


class ServerSettings(msgspec.Struct, frozen=True):
    """What differs between a live server, one in a test and one in a simulated world."""

    store: Store
    outside: Outside
    log: Log
    audit: AuditSink | None  # None where it is not read: in a simulated world that keeps no trace.
    signing: SigningKey  # Signs service account tokens.
    token: str  # Authenticates our own housekeeping, and nothing else.
    shared_store: bool = False  # Other API servers write to the store too.
    plugins: tuple[str, ...] = ()
    keep_all_objects: bool = False  # Objects are handed through as they are, never encoded.
    measured: bool = True  # False where metrics are not read: in a simulated world.
    service_addresses: IPv4Network = ADDRESSES  # The range that clusterIPs are taken from.
    agents: Agents | None = None  # Connections to the agents; None where there are none.
    journal: Journal = NoJournal()  # Keeps the decisions of housekeeping.
    decision_prefix: str = "housekeeping"  # Of their ids; another one at each start.
    sources: Sources | None = None  # Of answers to questions; None where there are no threads to answer in.
    traces: SpanSink | None = None  # Makes spans of committed writes; None: traces are off.
    # Makes the web page that the server serves; None: it serves none.
    make_page: Callable[[Authenticator, Authorizer], WebPage] | None = None
    own_kinds: bool = True  # False: a Kubernetes without fathom.dev, such as fathom may be attached to.
    read_only: str = ""  # Why no write is taken but the server's own; '': all are.
    detect_fights: bool = True  # Name fields that two writers fight over, and values that oscillate.


OWN_RESOURCES = frozenset(kind.resource for kind in OWN_KINDS)


def _is_about_own_kinds(plugin: Plugin) -> bool:
    """Whether it only looks at writes of fathom.dev kinds: not in a server that does not have them."""
    return plugin.resources is not None and plugin.resources <= OWN_RESOURCES


class Parts(msgspec.Struct, frozen=True):
    """One API server, wired."""

    server: ApiServer
    feed: WatchCacheFeed
    housekeeping: Housekeeping
    client: LocalClient
    decisions: DecisionLog
    authenticator: Authenticator
    own_tokens: Tokens  # Valid whatever the token file contains.
    fights: FieldFights
    page: WebPage
    questions: AskViews | None  # None: questions are not answered.

    @property
    def core(self) -> Core:
        return self.server.core

    def writer(self, name: str) -> HousekeepingWriter:
        """For what the server writes about itself."""
        return HousekeepingWriter(self.client, self.decisions, name)


def assemble(wanted: ServerSettings) -> Parts:
    outside, log = wanted.outside, wanted.log
    cache = WatchCache(keep_all_objects=wanted.keep_all_objects)
    registry = Registry.builtin()
    for kind in (*(OWN_KINDS if wanted.own_kinds else ()), *USAGE_KINDS):
        registry.add(kind)
    authorizer = Authorizer(cache, outside.clock)
    accounts = AccountTokens(wanted.signing, cache, outside.clock, outside.ids)
    own_tokens = {digest(wanted.token): User(HOUSEKEEPING, (MASTERS,))}
    authenticator = Authenticator(tokens=own_tokens, accounts=accounts, clock=outside.clock)
    standard = built_in(authorizer, outside.rng, outside.clock, wanted.service_addresses)
    plugins = [
        *(plugin for plugin in standard if wanted.own_kinds or not _is_about_own_kinds(plugin)),
        *load_plugins(wanted.plugins),
    ]
    core = Core(
        store=wanted.store,
        cache=cache,
        registry=registry,
        decoder=registry.decoder(),
        chain=Chain(plugins, on_fault=_complain(log), audited=wanted.audit is not None),
        outside=outside,
        shared_store=wanted.shared_store,
        audited=wanted.audit is not None,
        agents=wanted.agents,
    )
    core.read_only = wanted.read_only
    views = (
        AskViews(core, authorizer, wanted.sources)
        if wanted.sources is not None and wanted.own_kinds
        else None
    )
    page = NoWebPage() if wanted.make_page is None else wanted.make_page(authenticator, authorizer)
    server = ApiServer(
        core,
        dispatch=Dispatch(core, authorizer, authenticator, views),
        authenticator=authenticator,
        authorizer=authorizer,
        throttle=Throttle(outside.clock),
        audit=wanted.audit,
        metrics=_measured(core) if wanted.measured else NoMetrics(),
        log=log,
        traces=wanted.traces,
        page=page,
    )
    client = LocalClient(_in_process(server), token=wanted.token, name=f"fathom/{__version__} housekeeping")
    decisions = DecisionLog(
        wanted.journal, prefix=wanted.decision_prefix, controller=HOUSEKEEPER, clock=outside.clock
    )
    housekeeping = Housekeeping(
        client=client,
        decisions=decisions,
        view=cache,
        resources=RegistryResources(registry),
        outside=outside,
        log=log,
        mend_quota=corrected_status,
        tenant_status=tenant_status,
    )
    feed = WatchCacheFeed(wanted.store, cache, log, (CustomKinds(registry).observe, housekeeping.observe))
    writer = HousekeepingWriter(client, decisions, "field-fights")
    server_id = wanted.decision_prefix if wanted.shared_store else ""
    fights = FieldFights(writer, outside.clock, log, registry.by_resource, server=server_id)
    core.updates = fights if wanted.detect_fights else None
    return Parts(
        server, feed, housekeeping, client, decisions, authenticator, own_tokens, fights, page, views
    )


def _complain(log: Log) -> Callable[[str, Exception], None]:
    def complain(plugin: str, error: Exception) -> None:
        stack = traceback.format_exception(error)
        log.error("admission plugin failed", plugin=plugin, error=repr(error), stack=stack)

    return complain


def _measured(core: Core) -> Metrics:
    metrics, cache, counts = Metrics(), core.cache, core.counts
    for name, text, read in (
        ("fathom_store_revision", "Newest revision in the watch cache.", lambda: cache.reached),
        ("fathom_cached_objects", "Objects in the watch cache.", lambda: cache.objects),
        ("fathom_watch_log_bytes", "Bytes of the watch cache's event logs.", lambda: cache.log_bytes),
        ("apiserver_registered_watchers", "Open watches.", lambda: cache.watchers),
        (
            "fathom_watches_dropped",
            "Watches ended because their reader fell behind.",
            lambda: counts.watches_dropped,
        ),
        ("fathom_commits_retried", "Commits retried after a conflict.", lambda: counts.commits_retried),
    ):
        metrics.gauge(name, text, read)
    return metrics


def _in_process(server: ApiServer) -> Callable[..., Coroutine[Any, Any, Response]]:
    async def send(
        method: str, path: str, query: dict[str, list[str]], headers: dict[str, str], body: bytes
    ) -> Response:
        answer = await server.handle(
            Request(method=method, path=path, query=query, headers=headers, body=body)
        )
        if not isinstance(answer, Response):
            raise TypeError(f"{method} {path} returned a stream")
        return answer

    return send


async def bootstrap(parts: Parts) -> None:
    """Create the objects that every cluster starts with, restore rules and subjects that these objects lost,
    and count the pods that are older than the ledger."""
    await settle_ledger(parts.core)
    resources, writer = RegistryResources(parts.core.registry), parts.writer("bootstrap")
    for obj in plan_bootstrap(
        parts.core.cache, own=parts.core.registry.by_resource(EXPLANATIONS) is not None
    ):
        resource = resources.named(obj["apiVersion"], obj["kind"]) or ""
        exists = "uid" in obj["metadata"]
        meta = obj["metadata"]
        path = resources.path(resource, meta.get("namespace", ""), meta["name"] if exists else "")
        subject = Subject(resource, meta.get("namespace", ""), meta["name"], meta.get("uid", ""))
        why = "it lost rules or subjects" if exists else "every cluster has it"
        with ignored(409):  # Another server on the same store was faster.
            await writer.write(
                "PUT" if exists else "POST", path or "", subject, cause=STARTED, why=why, body=obj
            )
