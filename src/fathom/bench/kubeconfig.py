"""Which server to drive and as whom, from a kubeconfig file.

Certificates, tokens and basic TLS settings are understood; credential plugins are refused by name, since a
measurement should not depend on what another program does meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
import yaml

from fathom.bench.errors import BadTarget


class Target(msgspec.Struct, frozen=True):
    """One API server, and how to speak to it."""

    host: str
    port: int
    prefix: str  # Path before /api, for servers behind a proxy; usually empty.
    tls: ssl.SSLContext
    server_name: str
    token: str = ""


def read_target(path: Path) -> Target:
    """The server and user of the current context. Raises `BadTarget`."""
    config = _load(path)
    context = _named(config, "contexts", _string(config, "current-context", path), path)
    cluster = _named(config, "clusters", _string(context, "cluster", path), path)
    user = _named(config, "users", str(context["user"]), path) if context.get("user") else {}
    url = _address(cluster, path)
    if plugin := next((name for name in ("exec", "auth-provider", "username") if user.get(name)), None):
        raise BadTarget(f"{path}: the user's {plugin!r} is not supported here; use a token or a certificate")
    return Target(
        host=url.hostname or "",
        port=url.port or 443,
        prefix=url.path.rstrip("/"),
        tls=_tls(cluster, user, path),
        server_name=str(cluster.get("tls-server-name") or url.hostname),
        token=_token(user, path),
    )


def _address(cluster: Mapping[str, Any], path: Path) -> SplitResult:
    server = _string(cluster, "server", path)
    try:
        url = urlsplit(server)
        if url.scheme == "https" and url.hostname and url.port != 0:
            return url
    except ValueError:  # A port that is no port, a bracket that does not close.
        pass
    raise BadTarget(f"{path}: the server {server!r} is not an https:// address")


def _load(path: Path) -> Mapping[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadTarget(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadTarget(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict) or config.get("kind", "Config") != "Config":
        raise BadTarget(f"{path} is not a kubeconfig")
    return config


def _string(part: Mapping[str, Any], field: str, path: Path) -> str:
    value = part.get(field)
    if not isinstance(value, str) or not value:
        raise BadTarget(f"{path} has no {field}")
    return value


def _named(config: Mapping[str, Any], kind: str, name: str, path: Path) -> Mapping[str, Any]:
    entries = config.get(kind)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(kind[:-1])
            return found if isinstance(found, dict) else {}
    raise BadTarget(f"{path}: {kind} has no entry named {name!r}")


def _token(user: Mapping[str, Any], path: Path) -> str:
    if user.get("token"):
        return str(user["token"])
    if not user.get("tokenFile"):
        return ""
    file = _beside(path, str(user["tokenFile"]))
    try:
        return file.read_text().strip()
    except OSError as error:
        raise BadTarget(f"cannot read {file}: {error.strerror}") from error


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        with _file(cluster, "certificate-authority", path) as authority:
            if authority:
                context.load_verify_locations(cafile=authority)
        with _file(user, "client-certificate", path) as certificate, _file(user, "client-key", path) as key:
            if certificate:
                context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # SSLError is an OSError.
        raise BadTarget(f"{path}: a certificate or key in it is not usable: {error}") from error
    return context


@contextlib.contextmanager
def _file(part: Mapping[str, Any], field: str, path: Path) -> Iterator[str | None]:
    """The file a field names or, for `field-data`, one that holds the decoded bytes for as long as OpenSSL
    needs it: it takes key material from files only."""
    if not part.get(f"{field}-data"):
        yield str(_beside(path, str(part[field]))) if part.get(field) else None
        return
    try:
        decoded = base64.b64decode(str(part[f"{field}-data"]), validate=True)
    except binascii.Error as error:
        raise BadTarget(f"{path}: {field}-data is not base64") from error
    handle, name = tempfile.mkstemp(prefix="fathom-bench-")  # Readable by its owner only.
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(decoded)
        yield name
    finally:
        Path(name).unlink()


def _beside(path: Path, named: str) -> Path:
    """Relative paths count from the kubeconfig's own directory, as kubectl has it."""
    return path.parent / named
