"""What people may do is what roles and bindings say: each answer of an API server is compared with the
objects that the server could know when it gave it.

The rules are read here in the plainest way, object by object: nothing is compiled, indexed or remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom.model.accounts import NODES
from fathom.model.body import decode_json
from fathom.model.objects import Obj, labels_of, lookup, metadata
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.selectors import LabelSelector
from fathom.model.user import AUTHENTICATED, MASTERS, User
from fathom.sim.checkers.store_history import AskedWrite, StoreHistory, asked_of
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.violation import Violation

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.network import Exchange
    from fathom.sim.world.servers import SimServer
    from fathom.sim.world.world import World

ROLES, CLUSTER_ROLES = f"roles.{RBAC_GROUP}", f"clusterroles.{RBAC_GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{RBAC_GROUP}", f"clusterrolebindings.{RBAC_GROUP}"
KINDS = (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS)
REVIEWS = "selfsubjectaccessreviews.authorization.k8s.io"
OVERRIDES = "scheduleroverrides.fathom.dev"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
# Answers that only a request gets that was authorized.
DONE = frozenset({200, 201, 202, 409, 422})

Listed = Callable[[str], Iterable[Obj]]  # The objects of a resource.


class Asked(NamedTuple):
    """What somebody wants to do."""

    verb: str
    group: str
    resource: str  # 'deployments', 'deployments/scale'
    namespace: str
    name: str


def is_granted(who: User, asked: Asked, listed: Listed) -> bool:
    """Whether a role allows it that is bound to the user in the cluster or in the namespace."""
    return any(_allows(rule, asked) for rule in _rules_of(who, asked.namespace, listed))


def _rules_of(who: User, namespace: str, listed: Listed) -> Iterator[Obj]:
    for resource in (CLUSTER_BINDINGS, BINDINGS):
        for binding in listed(resource):
            space = metadata(binding).get("namespace") or ""
            if resource == BINDINGS and (not namespace or space != namespace):
                continue
            if any(_is_of(subject, who, space) for subject in binding.get("subjects") or ()):
                yield from _of_role(binding["roleRef"], space, listed)


def _is_of(subject: Obj, who: User, space: str) -> bool:
    name = subject.get("name")
    if subject.get("kind") == "Group":
        return name in who.groups
    if subject.get("kind") == "ServiceAccount":
        return who.name == f"system:serviceaccount:{subject.get('namespace') or space}:{name}"
    return subject.get("kind") == "User" and name == who.name


def _of_role(ref: Obj, space: str, listed: Listed) -> Iterator[Obj]:
    resource, space = (ROLES, space) if ref["kind"] == "Role" else (CLUSTER_ROLES, "")
    for role in listed(resource):
        meta = metadata(role)
        if meta["name"] == ref["name"] and (meta.get("namespace") or "") == space:
            yield from _rules_in(role, listed, set())


def _rules_in(role: Obj, listed: Listed, passed: set[str]) -> Iterator[Obj]:
    """An aggregated role has the rules of those that it selects, whatever its own field says."""
    selectors = lookup(role, "aggregationRule", "clusterRoleSelectors") or ()
    if not selectors:
        yield from role.get("rules") or ()
        return
    passed.add(str(metadata(role)["name"]))
    for other in listed(CLUSTER_ROLES):
        labels = labels_of(other)
        selected = any(LabelSelector.from_object(selector).matches(labels) for selector in selectors)
        if selected and metadata(other)["name"] not in passed:
            yield from _rules_in(other, listed, passed)


def _allows(rule: Obj, asked: Asked) -> bool:
    names = rule.get("resourceNames") or ()
    _, slash, part = asked.resource.partition("/")
    resources = {asked.resource, "*", *({f"*/{part}"} if slash else ())}
    return (
        bool({asked.verb, "*"}.intersection(rule.get("verbs") or ()))
        and bool({asked.group, "*"}.intersection(rule.get("apiGroups") or ()))
        and bool(resources.intersection(rule.get("resources") or ()))
        and (not names or asked.name in names)
    )


class RightsAreThoseOfRoles(Checker):
    """Of users who have no other rights than those of roles: not of administrators. Nodes, and whoever has
    broken the glass, may do more, but never less."""

    name = "everybody may do what their roles say, and nothing else"

    def __init__(self) -> None:
        self._changed: list[int] = []  # The revisions at which roles and bindings have changed.
        self._since: dict[Exchange, int] = {}  # Requests that have arrived -> what their server knew then.
        self._may_do_more: set[str] = set()  # Who has broken the glass.
        self._known: dict[tuple[int, User, Asked], bool] = {}  # By how many changes there had been.

    def begin(self, world: World) -> None:
        self._engine: Engine = world.engine
        entries = [entry for entry in world.engine.store.entries() if RBAC_GROUP in entry.key]
        self._past = StoreHistory(entries)
        world.engine.listeners.append(self)

    def commit(self, change: Seen) -> Found:
        if change.resource in KINDS:
            self._past.record(change)
            self._changed.append(change.revision)
        elif change.resource == OVERRIDES and lookup(change.new or {}, "spec", "changes", "breakGlassRole"):
            self._may_do_more.add(self._engine.processes[change.by].user.name)
        return None

    # Called by the network (`RequestListener`).

    def arrived(self, exchange: Exchange) -> None:
        if MASTERS not in exchange.process.user.groups:
            self._since[exchange] = self._reached(exchange)

    def answered(self, exchange: Exchange, status: int, body: Any) -> None:
        since = self._since.pop(exchange, None)
        request = asked_of(exchange.ask.target)
        if since is None or request is None:
            return
        user = exchange.process.user
        who = User(user.name, (*user.groups, AUTHENTICATED))
        if request.resource == REVIEWS:
            asked, allowed = _reviewed(exchange.ask.body), status == 201 and _is_allowed(body)
            if status != 201:
                return
        else:
            asked = _asked(exchange, request)
            refused = status == 403 and f" cannot {asked.verb} " in str(_decoded(body).get("message"))
            if not refused and status not in DONE:
                return
            allowed = not refused
        if allowed not in self._possible(who, asked, since, self._reached(exchange)):
            self._report(exchange, asked, allowed=allowed)

    def _possible(self, who: User, asked: Asked, since: int, until: int) -> Collection[bool]:
        """What the answer may be, by any state that the server had meanwhile."""
        possible = {self._is_granted(who, asked, since)}
        meanwhile = self._changed[bisect_right(self._changed, since) : bisect_right(self._changed, until)]
        possible |= {self._is_granted(who, asked, at) for at in meanwhile}
        if NODES in who.groups or who.name in self._may_do_more:
            possible.add(True)
        return possible

    def _is_granted(self, who: User, asked: Asked, revision: int) -> bool:
        changes = bisect_right(self._changed, revision)
        known = self._known.get((changes, who, asked))
        if known is None:
            known = is_granted(who, asked, lambda resource: self._past.objects_at(resource, revision))
            self._known[changes, who, asked] = known
        return known

    def _reached(self, exchange: Exchange) -> int:
        server: SimServer = self._engine.processes[exchange.server].state
        return server.parts.core.cache.reached

    def _report(self, exchange: Exchange, asked: Asked, *, allowed: bool) -> None:
        who, what = exchange.process.user.name, " ".join(part for part in asked if part)
        verdict = "lets" if allowed else "does not let"
        says = "but no role says so" if allowed else "although a role says so"
        message = f"{exchange.server} {verdict} {who} {what}, {says}"
        self._engine.broken(Violation(self.name, message, self._engine.since_s))


def _asked(exchange: Exchange, request: AskedWrite) -> Asked:
    method, (plural, _, group) = exchange.ask.method, request.resource.partition(".")
    if method == "GET":
        watches = request.query.get("watch") in {"1", "true"}
        verb = "watch" if watches else "get" if request.name else "list"
    elif method == "DELETE":
        verb = "delete" if request.name else "deletecollection"
    else:
        verb = VERBS[method]
    resource = f"{plural}/{request.subresource}" if request.subresource else plural
    # A namespace is authorized as an object within itself.
    namespace = request.name if plural == "namespaces" else request.namespace
    name = request.name or request.query.get("fieldSelector", "").partition("metadata.name=")[2]
    return Asked(verb, group, resource, namespace, name)


def _reviewed(body: Any) -> Asked:
    about = lookup(_decoded(body), "spec", "resourceAttributes") or {}
    part = f"/{about['subresource']}" if about.get("subresource") else ""
    resource = f"{about.get('resource', '')}{part}"
    texts = (str(about.get(field) or "") for field in ("namespace", "name"))
    return Asked(str(about.get("verb") or ""), str(about.get("group") or ""), resource, *texts)


def _is_allowed(body: Any) -> bool:
    return lookup(_decoded(body), "status", "allowed") is True


def _decoded(body: Any) -> Obj:
    decoded = decode_json(body) if isinstance(body, bytes) and body else body
    return decoded if isinstance(decoded, dict) else {}
