"""The connection to an etcd cluster: one channel per endpoint, and which endpoint is in use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
from aetcd.rpc import rpc_pb2, rpc_pb2_grpc

from fathom.store import etcd_wire
from fathom.store.protocol import StoreUnavailable
from fathom.store.unusable import BadStoreUrl


class EtcdOptions(msgspec.Struct, frozen=True):
    endpoints: tuple[str, ...]  # host:port
    prefix: str = "/fathom"
    tls: bool = False
    ca: Path | None = None  # Files in PEM; without `ca`, the system's authorities.
    cert: Path | None = None
    key: Path | None = None
    user: str = ""  # For etcd's authentication by password; '': none, or by certificate.
    password_file: Path | None = None
    connect_timeout_s: float = 3.0
    request_timeout_s: float = 5.0


_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # A page of large objects; etcd bounds what it sends.
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A partition that drops packets ends a watch within 15 s. etcd refuses pings closer than 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),  # The transport must never send a commit again by itself.
)


# A refused connection fails at once; gRPC keeps trying by itself, so the next call may find it ready.
_SETTLED = frozenset(
    {
        grpc.ChannelConnectivity.READY,
        grpc.ChannelConnectivity.TRANSIENT_FAILURE,
        grpc.ChannelConnectivity.SHUTDOWN,
    }
)


class Closed(StoreUnavailable):
    """The store was closed during a request. Whether etcd carried it out is unknown."""


class Stubs:
    """etcd's services over one channel."""

    def __init__(self, channel: grpc.aio.Channel, endpoint: str) -> None:
        self.channel = channel
        self.endpoint = endpoint
        self.kv: Any = rpc_pb2_grpc.KVStub(channel)
        self.watch: Any = rpc_pb2_grpc.WatchStub(channel)
        self.maintenance: Any = rpc_pb2_grpc.MaintenanceStub(channel)
        self.auth: Any = rpc_pb2_grpc.AuthStub(channel)


class EtcdLink:
    """Uses one endpoint until it fails, then the next."""

    def __init__(self, options: EtcdOptions) -> None:
        self.options = options
        self._credentials = _credentials(options)
        self._password = _password(options)
        self._token: str | None = None  # None: to be asked for. '': etcd wants none.
        self._stubs: dict[str, Stubs] = {}
        self._current = 0  # Index into the endpoints.
        self._closed = False

    async def ready(self) -> Stubs:
        """A connected endpoint. Where this raises `StoreUnavailable`, nothing was sent."""
        for _ in self.options.endpoints:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            stubs = self.stubs_of(self.options.endpoints[self._current])
            if await self._connected(stubs.channel):
                return stubs
            self.avoid(stubs)
        raise StoreUnavailable(f"no etcd answers at {', '.join(self.options.endpoints)}")

    def avoid(self, stubs: Stubs) -> None:
        """The endpoint did not answer: use the next one from now on."""
        if stubs.endpoint == self.options.endpoints[self._current]:
            self._current = (self._current + 1) % len(self.options.endpoints)

    async def call(self, stubs: Stubs, method: Any, request: Any) -> Any:
        """One call, with our token; once more with a new token if etcd does not accept the old one, which it
        says before it does anything else. Raises AioRpcError, StoreUnavailable."""
        try:
            return await self._call(stubs, method, request)
        except grpc.aio.AioRpcError as error:
            if not self.options.user or not etcd_wire.is_stale_token(error.details() or ""):
                raise
            self.forget_token()
            return await self._call(stubs, method, request)

    async def _call(self, stubs: Stubs, method: Any, request: Any) -> Any:
        metadata = await self.credentials_of(stubs)
        with self.under_way():
            return await method(request, timeout=self.options.request_timeout_s, metadata=metadata)

    async def credentials_of(self, stubs: Stubs) -> tuple[tuple[str, str], ...]:
        """The metadata that says who we are; the same for all members. Raises StoreUnavailable."""
        if not self.options.user:
            return ()
        if self._token is None:
            self._token = await self._authenticate(stubs)
        return (("token", self._token),) if self._token else ()

    def forget_token(self) -> None:
        self._token = None

    async def _authenticate(self, stubs: Stubs) -> str:
        request = rpc_pb2.AuthenticateRequest(name=self.options.user, password=self._password)
        try:
            with self.under_way():
                answer = await stubs.auth.Authenticate(request, timeout=self.options.request_timeout_s)
        except grpc.aio.AioRpcError as error:
            if "authentication is not enabled" in (error.details() or ""):
                return ""
            message = f"etcd does not accept the user {self.options.user!r}: {error.details()}"
            raise StoreUnavailable(message) from error
        return str(answer.token)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Around every call that is awaited on a channel. Closing a channel cancels its calls, and gRPC then
        raises the same exception that cancels a task: here it means that the store was closed."""
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise Closed("the store is closed") from None
            raise
        except (
            grpc.aio.UsageError
        ) as error:  # A call that begins after the channel was closed: it is not sent.
            if self._closed:
                raise StoreUnavailable("the store is closed") from error
            raise

    async def close(self) -> None:
        self._closed = True
        for stubs in self._stubs.values():
            await stubs.channel.close()

    def stubs_of(self, endpoint: str) -> Stubs:
        if endpoint not in self._stubs:
            if self._credentials is None:
                channel = grpc.aio.insecure_channel(endpoint, options=_CHANNEL_OPTIONS)
            else:
                channel = grpc.aio.secure_channel(endpoint, self._credentials, options=_CHANNEL_OPTIONS)
            self._stubs[endpoint] = Stubs(channel, endpoint)
        return self._stubs[endpoint]

    async def _connected(self, channel: grpc.aio.Channel) -> bool:
        state = channel.get_state(try_to_connect=True)
        if state == grpc.ChannelConnectivity.READY:
            return True
        try:
            async with asyncio.timeout(self.options.connect_timeout_s):
                while state not in _SETTLED:
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:
            return False
        return bool(state == grpc.ChannelConnectivity.READY)


def _credentials(options: EtcdOptions) -> grpc.ChannelCredentials | None:
    if not options.tls:
        return None
    ca, key, cert = (_pem(path) for path in (options.ca, options.key, options.cert))
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)


def _password(options: EtcdOptions) -> str:
    return "" if options.password_file is None else _read(options.password_file, "a file").decode().strip()


def _pem(path: Path | None) -> bytes | None:
    return None if path is None else _read(path, "a PEM file")


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadStoreUrl(f"cannot read {path} ({error.strerror}): give {what}") from error
