"""Kubeconfig files as kubectl reads them: server, certificates, user.

Several files (KUBECONFIG with colons) are merged: where two set the same field, the first file wins. Paths
are relative to the file that contains them.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
import yaml

from fathom.client.credentials import private_file
from fathom.model.objects import Obj

Part = Mapping[str, Any]


class BadKubeconfig(Exception):
    """The kubeconfig cannot be used; the message is one line that says why."""


class KubeconfigContext(msgspec.Struct, frozen=True):
    """One context, read and resolved: paths are absolute, nothing is opened yet."""

    source: str  # For messages.
    cluster: Part
    user: Part
    namespace: str
    name: str = ""
    cluster_name: str = ""

    @property
    def url(self) -> SplitResult:
        server = _string(self.cluster, "server", self.source)
        try:
            url = urlsplit(server)
            if url.scheme in {"https", "http"} and url.hostname and url.port != 0:
                return url
        except ValueError:  # An invalid port, an unclosed bracket.
            pass
        raise BadKubeconfig(f"{self.source}: the server {server!r} is not an https:// address")


def read_context(files: Sequence[Path], name: str = "") -> KubeconfigContext:
    """The named context, or the current one. Raises `BadKubeconfig`."""
    source = ":".join(str(path) for path in files)
    config = _merged([_load(path) for path in files])
    name = name or _string(config, "current-context", source)
    context = _named(config, "contexts", name, source)
    cluster_name = _string(context, "cluster", source)
    cluster = _named(config, "clusters", cluster_name, source)
    user = _named(config, "users", str(context["user"]), source) if context.get("user") else {}
    namespace = str(context.get("namespace") or "")
    return KubeconfigContext(source, cluster, user, namespace, name, cluster_name)


# Files.

_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}


def _load(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadKubeconfig(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadKubeconfig(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict) or config.get("kind", "Config") != "Config":
        raise BadKubeconfig(f"{path} is not a kubeconfig")
    return {**config, **{kind: _resolved(config.get(kind), kind, path) for kind in _FILES}}


def _resolved(entries: Any, kind: str, path: Path) -> list[Any]:
    """Paths are relative to the kubeconfig's own directory, as in kubectl."""
    resolved = []
    for entry in entries if isinstance(entries, list) else []:
        part = entry.get(kind[:-1]) if isinstance(entry, dict) else None
        if not isinstance(part, dict):
            resolved.append(entry)
            continue
        moved: Obj = {field: str(path.parent / str(part[field])) for field in _FILES[kind] if part.get(field)}
        plugin = part.get("exec")
        if isinstance(plugin, dict) and "/" in str(plugin.get("command") or ""):
            moved["exec"] = {**plugin, "command": str(path.parent / plugin["command"])}
        resolved.append({**entry, kind[:-1]: {**part, **moved}})
    return resolved


def _merged(configs: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for config in configs:
        for field, value in config.items():
            if isinstance(value, list):
                merged.setdefault(field, []).extend(value)  # Of equal names, the first wins.
            elif not merged.get(field):
                merged[field] = value
    return merged


def _string(part: Part, field: str, source: str) -> str:
    value = part.get(field)
    if not isinstance(value, str) or not value:
        raise BadKubeconfig(f"{source} has no {field}")
    return value


def _named(config: Part, kind: str, name: str, source: str) -> Part:
    entries = config.get(kind)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name:
            content = entry.get(kind[:-1])
            return content if isinstance(content, dict) else {}
    raise BadKubeconfig(f"{source}: {kind} has no entry named {name!r}")


# Certificates.


def tls_of(context: KubeconfigContext) -> ssl.SSLContext:
    cluster, user, source = context.cluster, context.user, context.source
    try:
        with _file(cluster, "certificate-authority", source) as authority:
            # Where a CA is named, no other is trusted: not the system's either.
            tls = ssl.create_default_context(cafile=authority)
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        with (
            _file(user, "client-certificate", source) as certificate,
            _file(user, "client-key", source) as key,
        ):
            if certificate:
                tls.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # SSLError is an OSError.
        raise BadKubeconfig(f"{source}: a certificate or key cannot be used: {error}") from error
    return tls


@contextlib.contextmanager
def _file(part: Part, field: str, source: str) -> Iterator[str | None]:
    """The file a field names or, for `field-data`, a temporary one with the decoded bytes."""
    if not part.get(f"{field}-data"):
        yield str(part[field]) if part.get(field) else None
        return
    try:
        decoded = base64.b64decode(str(part[f"{field}-data"]), validate=True)
    except binascii.Error as error:
        raise BadKubeconfig(f"{source}: {field}-data is not base64") from error
    with private_file(decoded) as name:
        yield name


# Users.


def token_of(context: KubeconfigContext) -> str:
    """The current token, from the kubeconfig or the token file it names; '' if there is none."""
    user = context.user
    if user.get("token"):
        return str(user["token"])
    if not user.get("tokenFile"):
        return ""
    file = Path(str(user["tokenFile"]))
    try:
        return file.read_text().strip()
    except OSError as error:
        raise BadKubeconfig(f"cannot read {file}: {error.strerror}") from error
