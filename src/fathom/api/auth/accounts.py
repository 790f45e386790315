"""Service account tokens: issued, verified, and void once the account or the bound pod is deleted.

A token is checked in two parts. Its signature is verified once and remembered. Whether it is still valid
(time, account, pod, override) is looked up in the View on every request, so that deleting a pod ends its
tokens at once, and ending a use of break-glass ends those that it allowed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from fathom.api.auth.jws import SigningKey
from fathom.api.auth.rbac import account_user
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, override_active
from fathom.kinds.shape import read
from fathom.model.objects import Key, Obj, metadata, uid_of
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.user import AUTHENTICATED, User
from fathom.model.view import View
from fathom.seams.outside import Clock, Ids

ISSUER = "https://kubernetes.default.svc.cluster.local"

VERIFIED_MAX = 4_096  # Two KiB each; a node has a token per pod, a server sees far fewer at a time.
EARLY_S = 10  # Another API server's clock may run a little ahead of ours.
DELETED_GRACE_S = 60  # As in kube-apiserver: a pod that is being deleted may finish its work.

# Kinds to which a token can be bound: resource, and whether it is in the account's namespace.
BOUND = {"Pod": ("pods", True), "Secret": ("secrets", True), "Node": ("nodes", False)}


class NamedObject(msgspec.Struct, frozen=True):
    name: str
    uid: str


class Kubernetes(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: NamedObject
    pod: NamedObject | None = None
    secret: NamedObject | None = None
    node: NamedObject | None = None


class TokenClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    kubernetes: Kubernetes = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str
    # NAMESPACE/NAME of the override that allowed the token, if only break-glass did: it ends with that.
    override: NamedObject | None = msgspec.field(default=None, name="fathom.dev/override")


class Accepted(msgspec.Struct, frozen=True):
    user: User
    audiences: tuple[str, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    why: str


class AccountTokens:
    def __init__(
        self, key: SigningKey, view: View, clock: Clock, ids: Ids, *, audiences: Sequence[str] = (ISSUER,)
    ) -> None:
        self._key = key
        self.view = view
        self.clock = clock
        self._ids = ids
        self.audiences = tuple(audiences)  # The audiences of this server.
        self._verified: dict[
            bytes, tuple[TokenClaims, User]
        ] = {}  # sha256(token) -> the claims, if the signature is valid.

    def issue_token(
        self,
        account: Obj,
        *,
        audiences: Sequence[str] = (),
        expiration_s: int = 3600,
        bound: Obj | None = None,
        override: SchedulerOverride | None = None,
    ) -> str:
        now_s = self.clock.now_ns() // SECOND_NS
        namespace, name = metadata(account)["namespace"], metadata(account)["name"]
        claims = TokenClaims(
            aud=tuple(audiences) or self.audiences,
            exp=now_s + expiration_s,
            iat=now_s,
            iss=ISSUER,
            jti=self._ids.uid(),
            kubernetes=Kubernetes(namespace, NamedObject(name, uid_of(account)), **_bound(bound, self.view)),
            nbf=now_s,
            sub=account_user(namespace, name),
            override=None if override is None else _named(override),
        )
        return self._key.sign(msgspec.json.encode(claims))

    def check(self, token: str, digest: bytes = b"", *, audiences: Sequence[str] = ()) -> Accepted | Refused:
        verified = self._verify(
            token, digest or hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        )
        if verified is None:
            return Refused("invalid bearer token")
        claims, user = verified
        wanted = audiences or self.audiences
        shared = tuple(audience for audience in wanted if audience in claims.aud)
        if not shared:
            return Refused(
                f"token audiences [{' '.join(claims.aud)}] is invalid for the target audiences "
                f"[{' '.join(wanted)}]"
            )
        fault = self._fault(claims)
        return Accepted(user, shared) if fault is None else Refused(fault)

    def claims_of(self, token: str, digest: bytes) -> tuple[TokenClaims, User] | None:
        """The claims of a token that is valid now, for this server; None otherwise."""
        if isinstance(self.check(token, digest), Refused):
            return None
        return self._verify(token, digest)

    def is_valid(self, claims: TokenClaims) -> bool:
        """Whether a token with these claims, whose signature was verified before, is still valid."""
        return self._fault(claims) is None

    def _verify(self, token: str, digest: bytes) -> tuple[TokenClaims, User] | None:
        verified = self._verified.get(digest)
        if verified is not None:
            return verified
        raw = self._key.public.claims(token)
        claims = _claims(raw) if raw is not None else None
        if claims is None:
            return None
        if len(self._verified) >= VERIFIED_MAX:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = verified = (claims, _user(claims))
        return verified

    def _fault(self, claims: TokenClaims) -> str | None:
        now_s = self.clock.now_ns() // SECOND_NS
        if now_s >= claims.exp:
            return "service account token has expired"
        if now_s + EARLY_S < claims.nbf:
            return "service account token is not valid yet"
        about = claims.kubernetes
        if self._gone(
            "serviceaccounts", Key(about.namespace, about.serviceaccount.name), about.serviceaccount
        ):
            return "service account has been deleted"
        for kind, named in (("Pod", about.pod), ("Secret", about.secret), ("Node", about.node)):
            resource, inside = BOUND[kind]
            # A pod's token also names its node, which may be deleted before the pod.
            if named and not (kind == "Node" and about.pod):
                key = Key(about.namespace if inside else "", named.name)
                if self._gone(resource, key, named):
                    return f"service account token has been invalidated: {kind.lower()} was deleted"
        if claims.override is not None and not self._is_active(claims.override):
            return "service account token has been invalidated: its override has ended"
        return None

    def _is_active(self, named: NamedObject) -> bool:
        seen = self.view.get(OVERRIDES, Key(*named.name.split("/", 1)))
        if seen is None or uid_of(seen.obj) != named.uid:
            return False
        try:
            return override_active(read(SchedulerOverride, seen.obj), self.clock.now_ns())
        except msgspec.ValidationError:
            return False  # No fathom server stores one; it has no effect.

    def _gone(self, resource: str, key: Key, named: NamedObject) -> bool:
        seen = self.view.get(resource, key)
        if seen is None or uid_of(seen.obj) != named.uid:
            return True
        deleted = metadata(seen.obj).get("deletionTimestamp")
        if not deleted:
            return False
        return self.clock.now_ns() > (moment_ns(deleted) or 0) + DELETED_GRACE_S * SECOND_NS


def _named(override: SchedulerOverride) -> NamedObject:
    return NamedObject("/".join(override.metadata.key), override.metadata.uid)


def _claims(raw: bytes) -> TokenClaims | None:
    try:
        claims = msgspec.json.decode(raw, type=TokenClaims)
    except ValueError:
        return None
    about = claims.kubernetes
    subject = account_user(about.namespace, about.serviceaccount.name)
    return claims if claims.iss == ISSUER and claims.sub == subject else None


def _user(claims: TokenClaims) -> User:
    about = claims.kubernetes
    extra = [("authentication.kubernetes.io/credential-id", (f"JTI={claims.jti}",))]
    for label, named in (("node", about.node), ("pod", about.pod)):
        if named:
            extra.append((f"authentication.kubernetes.io/{label}-name", (named.name,)))
            extra.append((f"authentication.kubernetes.io/{label}-uid", (named.uid,)))
    return User(
        name=claims.sub,
        uid=about.serviceaccount.uid,
        groups=("system:serviceaccounts", f"system:serviceaccounts:{about.namespace}", AUTHENTICATED),
        extra=tuple(extra),
    )


def _bound(bound: Obj | None, view: View) -> dict[str, NamedObject]:
    """The claim for the bound object; a pod's token also names the node that it runs on."""
    if bound is None:
        return {}
    kind = str(bound["kind"])
    claims = {kind.lower(): NamedObject(str(metadata(bound)["name"]), uid_of(bound))}
    node = (bound.get("spec") or {}).get("nodeName") if kind == "Pod" else None
    seen = view.get("nodes", Key("", node)) if node else None
    return {**claims, "node": NamedObject(str(node), uid_of(seen.obj))} if seen else claims
