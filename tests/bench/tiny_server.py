"""Just enough of a Kubernetes API server to try the drivers on: ConfigMaps, lists, watches, over TLS.

It runs in a thread of its own and can be told to misbehave, because a driver must notice a wrong server.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN = "let-me-in"


@dataclass(frozen=True)
class Manners:
    """How this server behaves; the default is well."""

    chunked_answers: bool = False
    lose_event: int = 0  # Watchers never hear of the write with this number.
    repeat_event: int = 0
    end_watch_after: int = 0  # A clean end of stream after so many events.
    refuse_get: int = 0  # Answer this status to every GET of one object.
    forget_update: bool = False  # Lose a field of the answer.
    drop_from_list: int = 0
    cut_bytes: int = 0  # Send watch streams in pieces of this size.
    silent: bool = False
    close_after: int = 0  # Say so and close the connection after so many answers on it.
    idle_s: float = 0.0  # Close a connection that is idle for so long.


@dataclass
class TinyServer:
    manners: Manners
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    revision: int = 1
    port: int = 0
    _watchers: list[asyncio.StreamWriter] = field(default_factory=list)
    _told: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = 0
        while True:
            try:
                async with asyncio.timeout(self.manners.idle_s or None):
                    head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                writer.close()
                return
            method, path, _ = head.split("\r\n", 1)[0].split(" ")
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            self.requests.append((method, path.partition("?")[0]))
            if self.manners.silent:
                continue
            if path != "/readyz" and fields.get("authorization") != f"bearer {TOKEN}":
                self._answer(writer, 401, {"message": "Unauthorized"})
            elif "watch=1" in path:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                self._watchers.append(writer)
            else:
                answers += 1
                closes = answers == self.manners.close_after
                self._answer(writer, *self._handle(method, path, json.loads(body or b"{}")), closes=closes)
                if closes:
                    writer.close()
                    return

    def _handle(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        plain, _, query = path.partition("?")
        if plain == "/version":
            return 200, {"gitVersion": "v0.0-tiny"}
        if plain == "/readyz" or "/configmaps" not in plain or method == "DELETE":
            return (201 if method == "POST" else 200), {}
        name = plain.rpartition("/configmaps")[2].lstrip("/")
        if method == "GET":
            return self._get(name) if name else self._list(query)
        return self._write(name or body["metadata"]["name"], body, created=method == "POST")

    def _get(self, name: str) -> tuple[int, dict[str, Any]]:
        if self.manners.refuse_get:
            return self.manners.refuse_get, {"message": "slow down"}
        return 200, self.objects[name]

    def _list(self, query: str) -> tuple[int, dict[str, Any]]:
        limit = int(query.removeprefix("limit=") or len(self.objects))
        items = list(self.objects.values())[: max(0, limit - self.manners.drop_from_list)]
        return 200, {"metadata": {"resourceVersion": str(self.revision)}, "items": items}

    def _write(self, name: str, body: dict[str, Any], *, created: bool) -> tuple[int, dict[str, Any]]:
        before = self.objects.get(name)
        if created and before:
            return 409, {"message": f"{name} exists"}
        if before and body["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
            return 409, {"message": f"{name} has been modified"}
        if before and body["data"] == before["data"]:
            return 400, {"message": "an update that changes nothing"}
        self.revision += 1
        written = {**body, "metadata": {"name": name, "resourceVersion": str(self.revision)}}
        self.objects[name] = written
        self._tell({"type": "ADDED" if created else "MODIFIED", "object": written})
        if self.manners.forget_update and not created:
            return 200, {"data": {}}
        return (201 if created else 200), written

    def _tell(self, event: dict[str, Any]) -> None:
        self._told += 1
        times = 0 if self._told == self.manners.lose_event else 1
        times += self._told == self.manners.repeat_event
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        chunk = (b"%x\r\n%s\r\n" % (len(line), line)) * times
        for watcher in self._watchers:
            for piece in _cut(chunk, self.manners.cut_bytes):
                watcher.write(piece)
            if self._told == self.manners.end_watch_after:
                watcher.write(b"0\r\n\r\n")

    def _answer(
        self, writer: asyncio.StreamWriter, status: int, document: dict[str, Any], *, closes: bool = False
    ) -> None:
        body = json.dumps(document, separators=(",", ":")).encode()
        head = f"HTTP/1.1 {status} Word\r\nContent-Type: application/json\r\n".encode()
        head += b"Connection: close\r\n" if closes else b""
        if not self.manners.chunked_answers:
            writer.write(head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            return
        half = len(body) // 2 + 1
        parts = [body[:half], body[half:], b""]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part)
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [data]


@contextmanager
def tiny_server(directory: Path, manners: Manners) -> Iterator[TinyServer]:
    """Listening on a port of the system's choice, with DIRECTORY/kubeconfig written."""
    server, loop = TinyServer(manners), asyncio.new_event_loop()
    certificate, key = make_certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    listening = loop.run_until_complete(asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context))
    server.port = listening.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    (directory / "kubeconfig").write_text(
        yaml.safe_dump(kubeconfig(server.port, authority=certificate.read_bytes()))
    )
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def kubeconfig(port: int, *, authority: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(authority).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": encoded}
    return {
        "kind": "Config",
        "current-context": "tiny",
        "contexts": [{"name": "tiny", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
    }


def make_certificate(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tiny")])
    now = datetime.datetime.now(datetime.UTC)
    local = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(local, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "tls.crt", directory / "tls.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files
