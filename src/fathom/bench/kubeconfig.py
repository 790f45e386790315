"""Which server to drive and as whom, from a kubeconfig file.

Certificates, tokens and basic TLS settings are understood; credential plugins are refused by name, since a
measurement should not depend on what another program does meanwhile.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from fathom.bench.errors import BadTarget
from fathom.client.kubeconfig import BadKubeconfig, read_context, tls_of, token_of


class BenchTarget(msgspec.Struct, frozen=True):
    """One API server, and how to speak to it."""

    host: str
    port: int
    prefix: str  # Path before /api, for servers behind a proxy; usually empty.
    tls: ssl.SSLContext
    server_name: str
    token: str = ""


def read_target(path: Path) -> BenchTarget:
    """The server and user of the current context. Raises `BadTarget`."""
    try:
        context = read_context([path])
        url, user = context.url, context.user
        if url.scheme != "https":
            raise BadTarget(f"{path}: the server {url.geturl()!r} is not an https:// address")
        if plugin := next((name for name in ("exec", "auth-provider", "username") if user.get(name)), None):
            raise BadTarget(
                f"{path}: the user's {plugin!r} is not supported here; use a token or a certificate"
            )
        return BenchTarget(
            host=url.hostname or "",
            port=url.port or 443,
            prefix=url.path.rstrip("/"),
            tls=tls_of(context),
            server_name=str(context.cluster.get("tls-server-name") or url.hostname),
            token=token_of(context),
        )
    except BadKubeconfig as error:
        raise BadTarget(str(error)) from error
