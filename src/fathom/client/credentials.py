"""Credentials for a server: a token, a token file that is read again when it changes, or an exec plugin.

Called for each request, on the host's loop. `renew`, awaited before the request, does whatever takes time.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from fathom.seams.outside import Clock

Headers = tuple[tuple[str, str], ...]

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
# A plugin may ask the user to log in with a browser; after this long it has failed.
PLUGIN_S_MAX = 60.0
# A credential is renewed before it expires: the server's clock differs from ours.
RENEW_EARLY_S = 10.0
OUTPUT_BYTES_MAX = 1 << 20


class NoCredentials(Exception):
    """No credentials can be obtained; the message is one line that says why."""


def bearer(token: str) -> Headers:
    return (("authorization", f"Bearer {token}"),) if token else ()


class Fixed:
    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def __call__(self) -> Headers:
        return self._headers


class TokenFile:
    """A mounted service account token is replaced every hour. If it cannot be read, the last one is used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._headers: Headers = ()
        self()
        if not self._headers:
            raise NoCredentials(f"{path} contains no token")

    def __call__(self) -> Headers:
        try:
            file_status = os.stat(self._path)
            stamp = (file_status.st_mtime_ns, file_status.st_ino, file_status.st_size)
            if stamp != self._stamp:
                self._headers = bearer(self._path.read_text().strip()) or self._headers
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            if not self._headers:
                raise NoCredentials(f"cannot read {self._path}: {_error_text(error)}") from error
        return self._headers


class CredentialPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A kubeconfig's `exec`."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    hint: str = ""  # How to install it.
    cluster: dict[str, Any] | None = None  # Passed to a plugin that sets `provideClusterInfo`.


class PluginCredentials:
    """A plugin's credentials, kept until they expire or the server refuses them. It runs once at a time."""

    def __init__(
        self, plugin: CredentialPlugin, tls: ssl.SSLContext, clock: Clock, environ: Mapping[str, str]
    ) -> None:
        import asyncio  # noqa: PLC0415  # 20 ms, which `fathom why` need not wait for: plugins are rare.

        self._plugin = plugin
        self._tls = tls
        self._clock = clock
        self._environ = environ
        self._lock = asyncio.Lock()
        self._headers: Headers = ()
        self._until_ns: int | None = 0  # None: until the server refuses it.

    def __call__(self) -> Headers:
        return self._headers

    def refused(self, used: Headers) -> None:
        """The server refused these credentials. If newer ones have been fetched since, those stay."""
        if used == self._headers:
            self._until_ns = 0

    async def renew(self) -> None:
        """Raises `NoCredentials`."""
        if self._is_fresh():
            return
        async with self._lock:
            if not self._is_fresh():
                self._take(await run_plugin(self._plugin, self._environ))

    def _is_fresh(self) -> bool:
        return self._until_ns is None or self._clock.now_ns() < self._until_ns

    def _take(self, status: Mapping[str, Any]) -> None:
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if certificate and key:
            try:
                with private_file(f"{certificate}\n{key}".encode()) as pair:
                    self._tls.load_cert_chain(pair)
            except (OSError, ValueError) as error:
                raise NoCredentials(
                    f"{self._plugin.command} returned an invalid certificate: {error}"
                ) from error
        self._headers = bearer(str(status.get("token") or ""))
        if not self._headers and not certificate:
            raise NoCredentials(f"{self._plugin.command} returned neither a token nor a certificate")
        self._until_ns = self._expiry_ns(status.get("expirationTimestamp"))

    def _expiry_ns(self, text: object) -> int | None:
        if not text:
            return None
        try:
            at_s = datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
        except ValueError as error:
            raise NoCredentials(
                f"{self._plugin.command} returned an invalid expirationTimestamp: {text!r}"
            ) from error
        return round((at_s - RENEW_EARLY_S) * 1e9)


async def run_plugin(plugin: CredentialPlugin, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The `status` of the plugin's output. Its stderr goes to ours."""
    import asyncio  # noqa: PLC0415

    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    ask = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    exec_info = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(ask).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**environ, **dict(plugin.env), **exec_info},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            limit=OUTPUT_BYTES_MAX,
        )
    except OSError as error:
        hint = f"; {plugin.hint}" if plugin.hint else ""
        raise NoCredentials(f"cannot run {plugin.command}: {_error_text(error)}{hint}") from error
    try:
        async with asyncio.timeout(PLUGIN_S_MAX):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise NoCredentials(f"{plugin.command} did not answer within {PLUGIN_S_MAX:g} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode != 0:
        raise NoCredentials(f"{plugin.command} failed with exit code {process.returncode}")
    return _status(plugin, output)


def _status(plugin: CredentialPlugin, output: bytes) -> Mapping[str, Any]:
    try:
        answer = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoCredentials(f"{plugin.command} did not return JSON: {error}") from error
    if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
        raise NoCredentials(f"{plugin.command} did not return an ExecCredential")
    if answer.get("apiVersion") != plugin.api_version:
        answered, wanted = answer.get("apiVersion"), plugin.api_version
        raise NoCredentials(
            f"{plugin.command} returned apiVersion {answered}, the kubeconfig requires {wanted}"
        )
    status = answer.get("status")
    if not isinstance(status, dict):
        raise NoCredentials(f"{plugin.command} returned no credentials")
    return status


@contextlib.contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """A temporary file for OpenSSL, which reads key material from files only."""
    handle, name = tempfile.mkstemp(prefix="fathom-")  # Readable by its owner only.
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        yield name
    finally:
        Path(name).unlink()


def basic(username: str, password: str) -> Headers:
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return (("authorization", f"Basic {pair}"),)


def _error_text(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
