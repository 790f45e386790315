"""The wiring of the real parts: which store, which clock, which sockets. Everything else is told.

run_up ──> open the data directory ──> Parts ──> load ──> bootstrap ──> listen ──> "ready"
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
import uvloop

from fathom import __version__
from fathom.api.admission.chain import Chain
from fathom.api.admission.plugins import built_in, load_plugins
from fathom.api.admission.quota import drift, recount
from fathom.api.asgi import Application, Protocol
from fathom.api.auth.accounts import AccountTokens
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.bootstrap import plan_bootstrap
from fathom.api.auth.certificates import Pki, ensure_pki, kubeconfig, write_private
from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import BadTokens, Tokens, digest, parse_tokens
from fathom.api.auth.tls import server_context
from fathom.api.core import Core
from fathom.api.custom import CustomKinds
from fathom.api.dispatch import Dispatch
from fathom.api.feeding import Feed
from fathom.api.kinds.registry import Registry
from fathom.api.limits import Throttle
from fathom.api.metrics import Metrics
from fathom.api.request import Request, Response
from fathom.api.resources import RegistryResources
from fathom.api.server import ApiServer
from fathom.api.watchcache import WatchCache
from fathom.client.local import LocalClient
from fathom.controllers.housekeeping import Housekeeping
from fathom.model.errors import ApiError
from fathom.model.user import MASTERS, User
from fathom.record.audit import AuditLog
from fathom.seams.log import JsonLog, Log
from fathom.seams.outside import Outside, live
from fathom.store.open import open_store
from fathom.store.protocol import Store
from fathom.store.retention import Retention

KEEP_ALIVE_S = 300  # Idle connections of clients are cheap; making them anew costs a handshake.
STOP_S = 3  # What a request under way may still take when we are told to stop.
TOKENS_CHECK_S = 5.0

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Parts(msgspec.Struct):
    """One API server, wired."""

    server: ApiServer
    feed: Feed
    housekeeping: Housekeeping
    client: LocalClient
    authenticator: Authenticator
    store: Store
    audit: AuditLog
    outside: Outside
    log: Log
    own_tokens: Tokens


def build(
    *, data: Path, store: Store, pki: Pki, outside: Outside, log: Log, shared_store: bool, plugins: list[str]
) -> Parts:
    cache = WatchCache()
    registry = Registry.builtin()
    custom = CustomKinds(registry)
    authorizer = Authorizer(cache)
    accounts = AccountTokens(SigningKey(pki.accounts_key), cache, outside.clock, outside.ids)
    token = secrets.token_urlsafe(32)
    own_tokens = {digest(token): User("system:fathom:housekeeping", (MASTERS,))}
    authenticator = Authenticator(tokens=own_tokens, accounts=accounts, clock=outside.clock)
    chain = Chain(
        [*built_in(authorizer), *load_plugins(plugins)],
        on_fault=lambda plugin, error: log.error(
            "admission plugin failed",
            plugin=plugin,
            error=repr(error),
            stack=traceback.format_exception(error),
        ),
    )
    core = Core(
        store=store,
        cache=cache,
        registry=registry,
        decoder=registry.decoder(),
        chain=chain,
        outside=outside,
        shared_store=shared_store,
    )
    audit = AuditLog(data / "audit", clock=outside.clock, log=log)
    metrics = Metrics()
    server = ApiServer(
        core,
        dispatch=Dispatch(core, authorizer, authenticator),
        authenticator=authenticator,
        authorizer=authorizer,
        throttle=Throttle(outside.clock),
        audit=audit,
        metrics=metrics,
        log=log,
    )
    client = LocalClient(_in_process(server), token=token, name=f"fathom/{__version__} housekeeping")
    housekeeping = Housekeeping(
        client=client,
        view=cache,
        resources=RegistryResources(registry),
        outside=outside,
        log=log,
        mend_quota=lambda quota, view: recount(quota, view) if drift(quota, view) else None,
    )
    feed = Feed(store, cache, log, (custom.observe, housekeeping.observe))
    _measure(metrics, core, audit)
    return Parts(server, feed, housekeeping, client, authenticator, store, audit, outside, log, own_tokens)


def _measure(metrics: Metrics, core: Core, audit: AuditLog) -> None:
    cache, counts = core.cache, core.counts
    for name, text, read in (
        ("fathom_store_revision", "The newest revision applied.", lambda: cache.reached),
        ("fathom_cached_objects", "Objects in the watch cache.", lambda: cache.objects),
        ("apiserver_registered_watchers", "Watches being served.", lambda: cache.watchers),
        ("fathom_watches_dropped", "Watches whose reader fell behind.", lambda: counts.watches_dropped),
        ("fathom_commits_retried", "Commits that lost a race.", lambda: counts.commits_retried),
        ("fathom_audit_entries_dropped", "Audit entries that no disk took.", lambda: audit.dropped),
    ):
        metrics.gauge(name, text, read)


def _in_process(server: ApiServer) -> Callable[..., Coroutine[Any, Any, Response]]:
    async def send(
        method: str, path: str, query: dict[str, list[str]], headers: dict[str, str], body: bytes
    ) -> Response:
        answer = await server.handle(
            Request(method=method, path=path, query=query, headers=headers, body=body)
        )
        if not isinstance(answer, Response):
            raise TypeError(f"{method} {path} answered a stream")
        return answer

    return send


async def bootstrap(parts: Parts) -> None:
    """What every cluster starts with: what is missing is made, what lost a rule or a subject is mended."""
    resources = RegistryResources(parts.server.core.registry)
    for obj in plan_bootstrap(parts.server.core.cache):
        resource = resources.named(obj["apiVersion"], obj["kind"]) or ""
        there = "uid" in obj["metadata"]
        path = resources.path(resource, "", obj["metadata"]["name"] if there else "")
        try:
            await parts.client.call("PUT" if there else "POST", path or "", body=obj)
        except ApiError as error:
            if error.code != 409:  # Another server on the same store was faster.
                raise


def run_up(*, data: Path, host: str, port: int, store: str | None, plugins: list[str] | None = None) -> None:
    """Serve until told to stop."""
    data = data.absolute()
    os.umask(0o077)  # Keys, and Secrets in the store, are nobody else's.
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(up(data=data, host=host, port=port, store=store, plugins=plugins or []))


async def up(*, data: Path, host: str, port: int, store: str | None, plugins: list[str]) -> None:
    outside = live()
    log = JsonLog(sys.stderr, outside.clock)
    listener = _listen(host, port)
    opened = await open_store(store or f"sqlite:{data}")
    try:
        pki = ensure_pki(data, [] if host in {"", "0.0.0.0", "::"} else [host], clock=outside.clock)
        parts = build(
            data=data,
            store=opened,
            pki=pki,
            outside=outside,
            log=log,
            shared_store=bool(store and store.startswith("etcd")),
            plugins=plugins,
        )
        await parts.feed.load()
        await _serve(parts, listener, pki, data)
    finally:
        listener.close()
        await opened.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


async def _serve(parts: Parts, listener: socket.socket, pki: Pki, data: Path) -> None:
    config = uvicorn.Config(
        Application(parts.server),
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        ssl_context_factory=lambda _config, _default: server_context(pki),
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    http = _Http(config)
    async with asyncio.TaskGroup() as group:
        background = [
            group.create_task(parts.feed.follow()),
            group.create_task(parts.housekeeping.run()),
            group.create_task(_reload_tokens(parts, data / "tokens.csv")),
            group.create_task(Retention(parts.store, parts.outside.clock).run()),
            group.create_task(parts.audit.run()),
        ]
        await bootstrap(parts)
        serving = group.create_task(http.serve(sockets=[listener]))
        _stop_on_signal(http, parts.server.core)
        await http.is_up.wait()
        _announce(listener, pki, data, parts.outside)
        await serving
        for task in background:
            task.cancel()


class _Http(uvicorn.Server):
    """uvicorn, without its own signal handlers, and with an event for "up"."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


def _stop_on_signal(http: _Http, core: Core) -> None:
    def stop() -> None:
        core.stopping = True
        core.cache.wake_all()  # Watches end by themselves.
        http.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def _announce(listener: socket.socket, pki: Pki, data: Path, outside: Outside) -> None:
    host, port = listener.getsockname()[:2]
    reachable = "127.0.0.1" if host in {"0.0.0.0", "::"} else host
    url = f"https://[{reachable}]:{port}" if ":" in reachable else f"https://{reachable}:{port}"
    file = data / "kubeconfig"
    write_private(file, kubeconfig(pki, url, clock=outside.clock).encode())
    print(f"fathom {__version__} serves the Kubernetes API on {url}, data in {data}")  # noqa: T201
    if host not in LOOPBACK:
        print(f"warning: {host} can be reached from other machines")  # noqa: T201
    print(f"export KUBECONFIG={file}")  # noqa: T201
    print("ready", flush=True)  # noqa: T201


async def _reload_tokens(parts: Parts, file: Path) -> None:
    """Static tokens follow their file."""
    stamp: tuple[int, int] = (0, 0)
    while True:
        stamp = _follow_tokens(parts, file, stamp)
        await asyncio.sleep(TOKENS_CHECK_S)


def _follow_tokens(parts: Parts, file: Path, stamp: tuple[int, int]) -> tuple[int, int]:
    """Read the file if it is not the one that was read last. A broken one changes nothing, and says so."""
    try:
        found = os.stat(file)
        now = (found.st_mtime_ns, found.st_size)
    except FileNotFoundError:
        now = (0, 0)
    if now == stamp:
        return stamp
    try:
        tokens = parse_tokens(file.read_text(), source=str(file)) if now != (0, 0) else {}
    except (OSError, ValueError, BadTokens) as error:
        parts.log.error("tokens not reloaded", file=str(file), error=str(error))
    else:
        parts.authenticator.replace_tokens({**tokens, **parts.own_tokens})
    return now
