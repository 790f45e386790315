"""Authenticates a request: by client certificate, by bearer token, or as anonymous.

Anonymous users may read health and version, and nothing else. Invalid credentials are refused even where an
anonymous user would be let in: a client must learn that its credentials are bad.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

from fathom.api.auth.accounts import Accepted, AccountTokens, Refused
from fathom.api.auth.authorize import Authorizer, is_public
from fathom.api.auth.credentials import Credential
from fathom.api.auth.impersonate import IMPERSONATE, impersonated
from fathom.api.auth.static_tokens import Tokens, digest
from fathom.api.auth.token_requests import request_token
from fathom.api.request import Request
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.model.errors import unauthorized
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS
from fathom.model.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from fathom.seams.outside import Clock

CERTIFICATES_MAX = 4_096  # Under one KiB each; one per client, of which a large cluster has some thousands.

RECENT_MAX = 4_096  # As certificates.

NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))


class Authenticator:
    def __init__(self, *, tokens: Tokens, accounts: AccountTokens, clock: Clock) -> None:
        self._tokens = tokens
        self._accounts = accounts
        self._clock = clock
        self._recent: dict[str, User] = {}  # By the header of a static token: hashing takes longer.
        self._certificates: dict[bytes, tuple[User, int]] = {}  # DER -> the user, and until when in ns.

    def replace_tokens(self, tokens: Tokens) -> None:
        """The wiring calls this when the token file has changed; a removed token is void at once."""
        self._tokens = tokens
        self._recent.clear()

    def authenticate(self, request: Request) -> User:
        """Raises 401."""
        der = request.client_certificate
        if der:
            user = self._certificate_user(der)
            if user is not None:
                return user
        return self._token_user(request.headers.get("authorization"), request.path)

    def impersonated(self, request: Request, user: User, authorizer: Authorizer) -> User:
        """The user to act as, if the request asks to impersonate. Raises 403 if that is not allowed."""
        for name in request.headers:
            if name.startswith(IMPERSONATE):
                return impersonated(user, request.headers, authorizer)
        return user

    def issue_for(self, account: Obj, request: Obj, *, override: SchedulerOverride | None = None) -> Obj:
        """The TokenRequest with its answer: a token for this service account, which ends with the override if
        that alone allows it."""
        return request_token(request, account, self._accounts, override=override)

    def check_token(self, token: str, audiences: Sequence[str] = ()) -> Accepted | Refused:
        """For TokenReview: the user of this token, for one of these audiences."""
        key = digest(token)
        user = self._tokens.get(key)
        if user is None:
            return self._accounts.check(token, key, audiences=audiences)
        # A static token is valid for this server's audiences only.
        wanted = audiences or self._accounts.audiences
        shared = tuple(audience for audience in wanted if audience in self._accounts.audiences)
        return Accepted(user, shared) if shared else Refused("token is not valid for the target audiences")

    def credential_of(self, request: Request) -> Credential:
        """What authenticates this request. Raises 401, also for a request without credentials."""
        if request.client_certificate:
            user = self._certificate_user(request.client_certificate)
            if user is not None:
                return Credential(user, until_ns=self._certificates[request.client_certificate][1])
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        credential = self.credential_of_token(token.strip()) if scheme.lower() == "bearer" else None
        if credential is None:
            raise unauthorized()
        return credential

    def credential_of_token(self, token: str) -> Credential | None:
        """None: the token is not valid."""
        key = digest(token)
        user = self._tokens.get(key)
        if user is not None:
            return Credential(user, token=key)
        verified = self._accounts.claims_of(token, key)
        return None if verified is None else Credential(verified[1], claims=verified[0])

    def is_valid(self, credential: Credential) -> bool:
        """Whether the credential would still authenticate its user: a removed token is void at once."""
        if credential.token:
            return self._tokens.get(credential.token) == credential.user
        if credential.claims is not None:
            return self._accounts.is_valid(credential.claims)
        return self._clock.now_ns() <= credential.until_ns

    def _token_user(self, header: str | None, path: str) -> User:
        if header is None:
            if is_public(path):
                return NOBODY
            raise unauthorized()
        recent = self._recent.get(header)
        if recent is not None:
            return recent
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise unauthorized()
        key = digest(token)
        user = self._tokens.get(key)
        if user is not None:
            if len(self._recent) >= RECENT_MAX:
                self._recent.clear()
            self._recent[header] = user
            return user
        checked = self._accounts.check(token, key)
        if isinstance(checked, Refused):
            raise unauthorized()
        return checked.user

    def _certificate_user(self, der: bytes) -> User | None:
        """The TLS layer checked the chain when the connection began; the certificate may have expired since.
        None: the certificate names no user."""
        cached = self._certificates.get(der)
        if cached is None:
            cached = _parse(der)
            if cached is None:
                return None
            if len(self._certificates) >= CERTIFICATES_MAX:
                del self._certificates[next(iter(self._certificates))]
            self._certificates[der] = cached
        if cached[1] < self._clock.now_ns():
            raise unauthorized()
        return cached[0]


def _parse(der: bytes) -> tuple[User, int] | None:
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        until_s = certificate.not_valid_after_utc.timestamp()
    except (ValueError, TypeError):
        raise unauthorized() from None
    if not names or not names[-1].value:
        return None
    user = User(
        name=str(names[-1].value),
        groups=(*(str(group.value) for group in groups), AUTHENTICATED),
        extra=(("authentication.kubernetes.io/credential-id", (_credential(der),)),),
    )
    return user, int(until_s) * SECOND_NS


def _credential(der: bytes) -> str:
    return f"X509SHA256={hashlib.sha256(der).hexdigest()}"
