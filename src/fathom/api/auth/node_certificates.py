"""Signs the certificate requests of nodes: how an agent on another machine joins with a token.

    agent: key ──POST──> CertificateSigningRequest ──judge──> approve ──judge──> sign ──certificate──> agent

Only the signer for nodes is served, as kube-controller-manager does: the certificate says that its holder is
`system:node:NAME`, and nothing else. Who may have one without being asked:

    a bootstrapper    group system:bootstrappers, or the account kube-system/node-bootstrapper; for a name
                      that no Node has yet: else its token would be worth every node's credentials
    the node itself   to renew it
    anybody           whose request an operator has approved (`kubectl certificate approve NAME`)
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fathom.api.auth.certificates import (
    CLIENT_DAYS,
    RSA_BITS_MIN,
    SKEW,
    Pki,
    authority_identifier,
    key_usage,
)
from fathom.model.accounts import BOOTSTRAPPERS, NODE_BOOTSTRAPPER, NODE_USER, NODES
from fathom.model.formats import dns_subdomain
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS
from fathom.seams.outside import Clock

REQUESTS = "certificatesigningrequests.certificates.k8s.io"
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
USAGES = frozenset({"client auth", "digital signature", "key encipherment"})
SECONDS_MIN = 600  # As Kubernetes allows.


class Approve(msgspec.Struct, frozen=True):
    node: str


class Sign(msgspec.Struct, frozen=True):
    """It is approved, by us or by an operator."""

    node: str


class Fail(msgspec.Struct, frozen=True):
    """It can never be signed."""

    why: str


class BadRequest(Exception):
    """The message says what is wrong with the request."""


def judge(obj: Obj, *, node_exists: Callable[[str], bool]) -> Approve | Sign | Fail | None:
    """What to do with a CertificateSigningRequest; None: nothing, now."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    conditions = {str(each.get("type")) for each in status.get("conditions") or ()}
    if spec.get("signerName") != SIGNER or status.get("certificate") or conditions & {"Denied", "Failed"}:
        return None
    try:
        node = node_of(read_request(str(spec.get("request") or "")), spec.get("usages") or ())
    except BadRequest as error:
        return Fail(str(error))
    if "Approved" in conditions:
        return Sign(node)
    return Approve(node) if _may_have(spec, node, node_exists) else None


def _may_have(spec: Obj, node: str, node_exists: Callable[[str], bool]) -> bool:
    name, groups = spec.get("username"), spec.get("groups") or ()
    if name == f"{NODE_USER}{node}" and NODES in groups:
        return True
    return (BOOTSTRAPPERS in groups or name == NODE_BOOTSTRAPPER) and not node_exists(node)


def read_request(encoded: str) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_pem_x509_csr(b64decode(encoded, validate=True))
        if not request.is_signature_valid:
            raise BadRequest("spec.request is not signed with its own key")
    except (ValueError, NotBase64, UnsupportedAlgorithm, InvalidSignature) as error:
        raise BadRequest("spec.request is not a PEM certificate request in base64") from error
    return request


def node_of(request: x509.CertificateSigningRequest, usages: Any) -> str:
    """The node that the request is for. Raises BadRequest unless it asks for that alone."""
    names = [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if len(names) != 1 or not names[0].startswith(NODE_USER) or groups != [NODES]:
        raise BadRequest(f"the subject is not CN={NODE_USER}NAME, O={NODES}")
    node = names[0].removeprefix(NODE_USER)
    if problems := dns_subdomain(node):
        raise BadRequest(f"{node!r} is not a valid node name: {problems[0]}")
    if len(list(request.subject)) != 2 or _has_names(request):
        raise BadRequest("the request names more than the node")
    if not set(usages) <= USAGES or "client auth" not in usages:
        raise BadRequest(f"usages must be 'client auth' and may be {', '.join(sorted(USAGES))}")
    key = request.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) and not (
        isinstance(key, rsa.RSAPublicKey) and key.key_size >= RSA_BITS_MIN
    ):
        raise BadRequest(f"the key is neither an elliptic curve key nor RSA of {RSA_BITS_MIN} bits or more")
    return node


def _has_names(request: x509.CertificateSigningRequest) -> bool:
    try:
        request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return False
    return True


def sign(pki: Pki, obj: Obj, *, clock: Clock) -> bytes:
    """The certificate, as PEM. Call it for what `judge` says to sign."""
    request = read_request(str(obj["spec"]["request"]))
    now = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC)
    most_s = CLIENT_DAYS * 86_400
    wanted_s = min(max(int(obj["spec"].get("expirationSeconds") or most_s), SECONDS_MIN), most_s)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(pki.ca.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(min(now + timedelta(seconds=wanted_s), pki.ca.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(authority_identifier(pki.ca, pki.ca_key), critical=False)
        .sign(pki.ca_key, SHA256())
    )
    return certificate.public_bytes(Encoding.PEM)
