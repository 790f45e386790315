"""One API server and how to reach it."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import msgspec

from fathom.client.credentials import PluginCredentials

CONNECT_S = 5.0

Credentials = Callable[[], tuple[tuple[str, str], ...]]


class ServerAddress(msgspec.Struct, frozen=True):
    """`credentials` is called for each request: tokens are renewed."""

    url: str  # https://host:port, with a path prefix if there is one.
    tls: ssl.SSLContext
    credentials: Credentials
    server_name: str = ""
    # Credentials that must be fetched before they can be sent, and again when they are refused.
    renewing: PluginCredentials | None = None
