"""Opens a store by its address.

`memory:`, `sqlite:DIR`, `etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX][?OPTIONS]`.

etcd's options: `ca`, `cert`, `key` (PEM files; each turns TLS on), `tls=true` (with the system's
authorities), `timeout` (seconds a request may take), `user` and `password-file` (of etcd's own users; the
password is not part of the address, which every user of the machine can see).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, urlsplit

from fathom.store.memory import MemoryStore
from fathom.store.protocol import Store, StoreUnavailable
from fathom.store.sqlite import SqliteStore
from fathom.store.unusable import BadStoreUrl, StoreUnusable

if TYPE_CHECKING:
    from fathom.store.etcd_link import EtcdOptions

ETCD_PORT = 2379
NO_ETCD = "etcd support is not installed; install it with: pip install 'fathom-control[etcd]'"
FORMS = "memory:, sqlite:DIR or etcd://HOST:PORT[,HOST:PORT]"

_ETCD_OPTIONS = frozenset({"ca", "cert", "key", "tls", "timeout", "user", "password-file"})


async def open_store(url: str) -> Store:
    """Raises subclasses of `StoreUnusable`, whose message is one line that says what to do."""
    scheme, _, location = url.partition(":")
    match scheme:
        case "memory" if not location:
            return MemoryStore()
        case "sqlite" if location:
            return SqliteStore.open(Path(location.removeprefix("//")))
        case "etcd":
            return await _open_etcd(url)
        case _:
            raise BadStoreUrl(f"cannot open a store at {url!r}: give {FORMS}")


async def _open_etcd(url: str) -> Store:
    options = etcd_options(url)
    from fathom.store.etcd import EtcdStore  # noqa: PLC0415 - gRPC costs 0.1 s, which only etcd should pay

    store = EtcdStore(options)
    try:
        await store.revision()
    except StoreUnavailable as error:
        await store.close()
        raise StoreUnusable(
            f"{error}: is etcd running, and are address, certificates and user right?"
        ) from error
    return store


def etcd_options(url: str) -> EtcdOptions:
    try:
        from fathom.store.etcd_link import EtcdOptions  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise StoreUnusable(f"cannot open a store at {url!r}: {NO_ETCD}") from error
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - _ETCD_OPTIONS)
    if unknown or not parts.netloc:
        wrong = f"unknown option {unknown[0]!r}" if unknown else "no host"
        raise BadStoreUrl(f"cannot open a store at {url!r}: {wrong}; give {FORMS}")
    files = {name: Path(options[name]) for name in ("ca", "cert", "key") if name in options}
    if ("cert" in files) != ("key" in files):
        raise BadStoreUrl(f"cannot open a store at {url!r}: give both cert and key, or neither")
    if ("user" in options) != ("password-file" in options):
        raise BadStoreUrl(f"cannot open a store at {url!r}: give both user and password-file, or neither")
    return EtcdOptions(
        endpoints=_endpoints(url, parts),
        prefix=parts.path.rstrip("/") or "/fathom",
        tls=bool(files) or options.get("tls") == "true",
        ca=files.get("ca"),
        cert=files.get("cert"),
        key=files.get("key"),
        user=options.get("user", ""),
        password_file=Path(options["password-file"]) if "password-file" in options else None,
        request_timeout_s=_seconds(url, options.get("timeout", "5")),
    )


def _endpoints(url: str, parts: SplitResult) -> tuple[str, ...]:
    endpoints = []
    for host in parts.netloc.split(","):
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):
            name, port = host, str(ETCD_PORT)
        if "@" in host:
            raise BadStoreUrl(
                f"cannot open a store at {url!r}: give the user as ?user=NAME&password-file=FILE"
            )
        if not name or not port.isdigit():
            raise BadStoreUrl(f"cannot open a store at {url!r}: {host!r} is not HOST:PORT")
        endpoints.append(f"{name}:{port}")
    return tuple(endpoints)


def _seconds(url: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise BadStoreUrl(f"cannot open a store at {url!r}: timeout={text!r} is not a number of seconds")
    return seconds
