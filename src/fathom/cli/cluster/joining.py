"""`fathom serve agent --server URL --token TOKEN`: get a node's credentials from the API server.

The agent makes a key, which never leaves the machine, and asks for a certificate with the token. The key and
the certificate are kept in DATA/credentials/NODE, a kubeconfig: the next start needs no token. A certificate
that has less than RENEW_DAYS left is renewed with the old one.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from fathom.api.auth.node_certificates import SIGNER
from fathom.cli.api_server import NoAnswerNow, ServerConnection
from fathom.cli.problem import Problem
from fathom.client.server_address import ServerAddress
from fathom.model.accounts import NODE_USER, NODES
from fathom.private_files import write_private
from fathom.terminal import say

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RENEW_DAYS = 30
ASK_AGAIN_S = 1.0
TOLD_AFTER = 5  # Tries, after which a user is told what the agent waits for.


class JoinWanted(msgspec.Struct, frozen=True):
    server: str  # https://HOST:PORT
    token: str  # '' once the node has its certificate.
    ca: Path | None  # PEM; None: the system's authorities.
    folder: Path


def join(wanted: JoinWanted, nodes: list[str]) -> Path:
    """The directory with a kubeconfig for each node. Waits until each has its certificate. Raises Problem."""
    wanted.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for node in nodes:
        if not _is_good(wanted.folder / node):
            _join(wanted, node)
    return wanted.folder


def _join(wanted: JoinWanted, node: str) -> None:
    key = _key(wanted.folder / f".{node}.key")
    server = _server(wanted, node)
    name = _ask(ServerConnection(server), node, key)
    certificate = _wait(server, name, node)
    write_private(wanted.folder / node, _kubeconfig(wanted, node, certificate, _pem(key)).encode())
    (wanted.folder / f".{node}.key").unlink()


def _key(file: Path) -> ec.EllipticCurvePrivateKey:
    """Kept until the certificate is there: a second try asks for the same one."""
    if not file.exists():
        write_private(file, _pem(ec.generate_private_key(ec.SECP256R1())))
    key = load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Problem(f"{file} is not a key that this agent made: remove it")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _server(wanted: JoinWanted, node: str) -> ServerAddress:
    try:
        tls = ssl.create_default_context(cafile=None if wanted.ca is None else str(wanted.ca))
    except (OSError, ssl.SSLError) as error:
        raise Problem(f"--ca {wanted.ca}: not a readable PEM file ({error})") from error
    old = wanted.folder / node
    if _days_left(old) > 0:
        _use_certificate(tls, old)
        return ServerAddress(url=wanted.server, tls=tls, credentials=lambda: ())
    if not wanted.token:
        raise Problem(f"node {node} has no valid certificate yet: give a token with --token or --token-file")
    header = ("authorization", f"Bearer {wanted.token}")
    return ServerAddress(url=wanted.server, tls=tls, credentials=lambda: (header,))


def _use_certificate(tls: ssl.SSLContext, kubeconfig: Path) -> None:
    """`ssl` reads files only."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    pair = kubeconfig.with_name(f".{kubeconfig.name}.pem")
    write_private(pair, b64decode(user["client-key-data"]) + b64decode(user["client-certificate-data"]))
    try:
        tls.load_cert_chain(pair)
    finally:
        pair.unlink()


def _ask(connection: ServerConnection, node: str, key: ec.EllipticCurvePrivateKey) -> str:
    """Create the request; its name. The name follows from the key, so a second try finds the first."""
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    name = f"node-csr-{hashlib.sha256(public + node.encode()).hexdigest()[:32]}"
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": b64encode(_request(node, key)).decode(),
            "signerName": SIGNER,
            "usages": ["client auth", "digital signature"],
        },
    }
    code, answer = connection.request("POST", PATH, body)
    if code == 401:
        raise Problem("the API server does not accept the token: it may have ended; make a new one")
    if code not in {201, 409}:
        raise Problem(f"the API server refused the request to join: {answer.get('message')}")
    return name


def _request(node: str, key: ec.EllipticCurvePrivateKey) -> bytes:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, NODES),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{NODE_USER}{node}"),
        ]
    )
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )


def _wait(server: ServerAddress, name: str, node: str) -> bytes:
    """The certificate, as PEM."""
    tries = 0
    while True:
        try:
            _, answer = ServerConnection(server).request("GET", f"{PATH}/{name}")
        except NoAnswerNow as error:
            say(f"{error}; trying again", err=True)
            answer = {}
        status: dict[str, Any] = answer.get("status") or {}
        if encoded := status.get("certificate"):
            return b64decode(str(encoded))
        for condition in status.get("conditions") or ():
            if condition.get("type") in {"Denied", "Failed"}:
                raise Problem(f"node {node} may not join: {condition.get('message') or condition['type']}")
        tries += 1
        if tries == TOLD_AFTER:
            say(f"node {node} waits to be let in: kubectl certificate approve {name}", err=True)
        time.sleep(ASK_AGAIN_S)


def _is_good(file: Path) -> bool:
    return _days_left(file) > RENEW_DAYS


def _days_left(file: Path) -> float:
    """Of the certificate in a kubeconfig; 0 if there is none that can be read."""
    try:
        user = yaml.safe_load(file.read_text())["users"][0]["user"]
        certificate = x509.load_pem_x509_certificate(b64decode(user["client-certificate-data"]))
    except (OSError, ValueError, KeyError, IndexError, TypeError, yaml.YAMLError):
        return 0.0
    return (certificate.not_valid_after_utc - datetime.now(UTC)) / timedelta(days=1)


def _kubeconfig(wanted: JoinWanted, node: str, certificate: bytes, key: bytes) -> str:
    cluster: dict[str, Any] = {"server": wanted.server}
    if wanted.ca is not None:
        cluster["certificate-authority-data"] = b64encode(wanted.ca.read_bytes()).decode()
    user = {
        "client-certificate-data": b64encode(certificate).decode(),
        "client-key-data": b64encode(key).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": node, "cluster": cluster}],
        "users": [{"name": node, "user": user}],
        "contexts": [{"name": node, "context": {"cluster": node, "user": node}}],
        "current-context": node,
    }
    return yaml.safe_dump(config, sort_keys=False)
