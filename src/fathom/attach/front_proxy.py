"""Whom to believe about who asks: Kubernetes' front proxy, as the cluster's own configuration names it.

    kube-apiserver ──its front-proxy certificate, X-Remote-User, …──> FrontProxy.user_of ──> User

kube-apiserver authenticates its users, and names them in headers. Headers are worth nothing by themselves:
they are believed on a connection whose certificate the authority of `requestheader-client-ca-file` has signed
(the TLS layer has checked that), for one of the names that are allowed there. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from fathom.api.auth.impersonate import IMPERSONATE, REPEATED
from fathom.api.request import Request
from fathom.model.errors import forbidden, unauthorized
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS
from fathom.model.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"


class NoFrontProxy(Exception):
    """The cluster's configuration names no proxy that can be believed; one line for the operator."""


class FrontProxy(msgspec.Struct, frozen=True, kw_only=True):
    """Who may say which user asks, and in which headers. Header names are in lower case."""

    authority: str  # The certificates of the CA, as PEM.
    allowed_names: tuple[str, ...] = ()  # Common names; empty: every certificate of the CA.
    user_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    def user_of(self, request: Request, *, now_ns: int) -> User:
        """Raises 401 where nobody vouches for the sender, and 403 for one that asks to be somebody else: that
        is the cluster's own server to judge, which has done so before it sends a request on."""
        self._check_certificate(request.client_certificate, now_ns)
        if any(name.startswith(IMPERSONATE) for name in request.headers):
            raise forbidden("impersonation is judged by the cluster's API server: send the request there")
        return self._named(request.headers)

    def _check_certificate(self, der: bytes, now_ns: int) -> None:
        """The chain was checked when the connection began. The certificate may have expired since."""
        if not der:
            raise unauthorized()
        try:
            certificate = x509.load_der_x509_certificate(der)
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            until_ns = int(certificate.not_valid_after_utc.timestamp()) * SECOND_NS
        except (ValueError, TypeError):
            raise unauthorized() from None
        # Kubernetes reads one common name; a certificate with several could mean any of them.
        if until_ns < now_ns or len(names) > 1:
            raise unauthorized()
        name = str(names[0].value) if names else ""
        if self.allowed_names and name not in self.allowed_names:
            raise unauthorized()

    def _named(self, headers: Mapping[str, str]) -> User:
        name = _single(headers, self.user_headers)
        if not name:
            raise unauthorized()
        groups = tuple(value for header in self.group_headers for value in _values(headers, header))
        return User(
            name=name,
            groups=_completed(name, groups),
            uid=_single(headers, self.uid_headers),
            extra=tuple(
                (unquote(header.removeprefix(prefix)), _values(headers, header))
                for prefix in self.extra_prefixes
                for header in sorted(headers)
                if header.startswith(prefix) and header != prefix
            ),
        )


def front_proxy_of(config_map: Obj | None) -> FrontProxy:
    """Of the ConfigMap kube-system/extension-apiserver-authentication. Raises NoFrontProxy."""
    if config_map is None:
        raise NoFrontProxy(f"there is no ConfigMap {NAMESPACE}/{NAME}: the server has no aggregation layer")
    data = config_map.get("data") or {}
    authority = str(data.get("requestheader-client-ca-file") or "")
    if not authority.strip():
        raise NoFrontProxy(
            f"the ConfigMap {NAMESPACE}/{NAME} has no requestheader-client-ca-file: kube-apiserver was"
            " started without an aggregation layer"
        )
    proxy = FrontProxy(
        authority=authority,
        allowed_names=_listed(data, "requestheader-allowed-names"),
        user_headers=_headers(data, "requestheader-username-headers"),
        uid_headers=_headers(data, "requestheader-uid-headers"),
        group_headers=_headers(data, "requestheader-group-headers"),
        extra_prefixes=_headers(data, "requestheader-extra-headers-prefix"),
    )
    if not proxy.user_headers:
        raise NoFrontProxy(f"the ConfigMap {NAMESPACE}/{NAME} names no requestheader-username-headers")
    if not proxy.allowed_names and _shares(authority, str(data.get("client-ca-file") or "")):
        raise NoFrontProxy(
            f"the ConfigMap {NAMESPACE}/{NAME} lets every user of the cluster's CA speak for every other:"
            " give kube-apiserver --requestheader-allowed-names, or a CA of its own for the front proxy"
        )
    return proxy


def _shares(authority: str, clients: str) -> bool:
    """Whether a CA of the front proxy is also one of users. Raises NoFrontProxy."""
    return bool(_keys(authority) & _keys(clients)) if clients.strip() else False


def _keys(pem: str) -> set[bytes]:
    """The keys, not the certificates: a CA that was renewed has another certificate."""
    try:
        return {
            certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            for certificate in x509.load_pem_x509_certificates(pem.encode())
        }
    except ValueError as error:
        raise NoFrontProxy(
            f"the ConfigMap {NAMESPACE}/{NAME} has a CA that cannot be read: {error}"
        ) from None


def _listed(data: Obj, name: str) -> tuple[str, ...]:
    """Raises NoFrontProxy: a list that cannot be read must not mean "all"."""
    text = str(data.get(name) or "").strip()
    if not text:
        return ()
    try:
        return tuple(msgspec.json.decode(text, type=list[str]))
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise NoFrontProxy(f"the ConfigMap {NAMESPACE}/{NAME}: {name} is no list of strings") from None


def _headers(data: Obj, name: str) -> tuple[str, ...]:
    return tuple(header.strip().lower() for header in _listed(data, name) if header.strip())


def _single(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The value of the first of these headers that is there. Raises 401 where it is given twice: one of them
    did not come from the proxy."""
    for name in names:
        value = _text(headers.get(name, "")).strip()
        if REPEATED in value:
            raise unauthorized()
        if value:
            return value
    return ""


def _text(value: str) -> str:
    """Names may have other letters than English ones: kube-apiserver sends them as UTF-8. Raises 401."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        raise unauthorized() from None


def _values(headers: Mapping[str, str], header: str) -> tuple[str, ...]:
    return tuple(value for value in _text(headers.get(header, "")).split(REPEATED) if value)


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Kubernetes adds the group of all who are authenticated, where the proxy has not."""
    if name == ANONYMOUS or AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)
