"""Authorization: whether a user may do what a request asks.

In order: members of system:masters may do everything; health is public; RBAC; then, for nodes, what their own
pods need; for the author of a break-glass override, what its role allows. All of them only ever allow, so the
order affects cost, not the result. RBAC's decisions are remembered until one of its four resources changes.
"""

from __future__ import annotations

from fathom.api.auth.break_glass import BreakGlass
from fathom.api.auth.nodes import NodeAccess
from fathom.api.auth.rbac import Rbac, RbacDecision, RbacRules
from fathom.api.request import RequestTarget
from fathom.model.accounts import NODES
from fathom.model.causes import quoted
from fathom.model.errors import ApiError, forbidden
from fathom.model.user import MASTERS, User
from fathom.model.view import View
from fathom.seams.outside import Clock

# One entry is some 400 bytes. A busy cluster needs a few thousand different decisions; a hostile client can
# make up any number, so the memory is bounded.
REMEMBERED_MAX = 20_000

REMEMBERED_CHARS_MAX = 2048

PUBLIC = ("/healthz", "/livez", "/readyz", "/version")

_MASTER = RbacDecision(True)
_HEALTH = RbacDecision(True)
_BY_NAME = RbacDecision(False)  # A remembered marker: the decision depends on the object's name.


def is_public(path: str) -> bool:
    """Health and version: the only paths that work without credentials, and before any role can be read."""
    return path.startswith(PUBLIC) and any(
        path == prefix or path.startswith(f"{prefix}/") for prefix in PUBLIC
    )


class Authorizer:
    def __init__(self, view: View, clock: Clock | None = None) -> None:
        """Without a clock nobody has anything by break-glass: nothing could say when it is over."""
        self.view = view
        self.rbac = Rbac(view)
        self.break_glass = None if clock is None else BreakGlass(view, self.rbac, clock)
        self._nodes = NodeAccess(view)
        self._remembered: dict[tuple[object, ...], RbacDecision] = {}  # Valid while the stamp is `_stamp`.
        self._stamp = (-1, -1, -1, -1)

    def authorize(self, user: User, target: RequestTarget) -> RbacDecision:
        groups = user.groups
        if MASTERS in groups:
            return _MASTER
        stamp = self.rbac.stamp()
        if stamp != self._stamp:
            self._remembered.clear()
            self._stamp = stamp
        plural = target.plural
        key = (
            user.name,
            groups,
            target.verb,
            target.group,
            plural,
            target.subresource,
            target.namespace if plural else target.path,
        )
        decision = self._remembered.get(key)
        if decision is None or decision is _BY_NAME:
            decision = self._look_closer(user, target, key)
        return decision if decision.allowed else self._beyond_roles(user, target, decision)

    def _beyond_roles(self, user: User, target: RequestTarget, refused: RbacDecision) -> RbacDecision:
        if NODES in user.groups:
            return self._nodes.decide(user, target)
        by_override = None if self.break_glass is None else self.break_glass.decide(user, target)
        return refused if by_override is None else by_override

    def by_roles(self, user: User, target: RequestTarget) -> RbacDecision:
        """The same by roles alone: for what break-glass must not open."""
        return _MASTER if MASTERS in user.groups else self.rbac.decide(user, target).decision

    def require(self, user: User, target: RequestTarget) -> RbacDecision:
        decision = self.authorize(user, target)
        if not decision.allowed:
            raise refusal(user, target, decision.reason)
        return decision

    def rules_for(self, user: User, namespace: str) -> RbacRules:
        return self.rbac.rules_for(user, namespace)

    def _look_closer(self, user: User, target: RequestTarget, key: tuple[object, ...]) -> RbacDecision:
        named = (*key, target.name)
        decision = self._remembered.get(named)
        if decision is not None:
            return decision
        if not target.plural and is_public(target.path):
            decision, by_name = _HEALTH, False
        else:
            decision, by_name = self.rbac.decide(user, target)
        if by_name:
            self._remember(key, _BY_NAME)
        self._remember(named if by_name else key, decision)
        return decision

    def _remember(self, key: tuple[object, ...], decision: RbacDecision) -> None:
        if sum(len(part) for part in key if isinstance(part, str)) > REMEMBERED_CHARS_MAX:
            return  # A made-up path: it will not be requested twice.
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[key] = decision


def refusal(user: User, target: RequestTarget, reason: str = "") -> ApiError:
    """403 in kube-apiserver's words: pods is forbidden: User "jane" cannot list resource "pods" in ..."""
    message = _cannot(user, target) + (f": {reason}" if reason else "")
    if not target.plural:
        return forbidden(f"forbidden: {message}")
    resource = f"{target.plural}.{target.group}" if target.group else target.plural
    subject = f"{resource} {quoted(target.name)}" if target.name else resource
    return forbidden(f"{subject} is forbidden: {message}", resource=resource, name=target.name)


def _cannot(user: User, target: RequestTarget) -> str:
    start = f"User {quoted(user.name)} cannot {target.verb}"
    if not target.plural:
        return f"{start} path {quoted(target.path)}"
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    where = f"in the namespace {quoted(target.namespace)}" if target.namespace else "at the cluster scope"
    return f"{start} resource {quoted(resource)} in API group {quoted(target.group)} {where}"
