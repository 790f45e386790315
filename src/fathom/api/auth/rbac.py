"""RBAC over the cluster's roles and bindings: which rules apply to a user in a namespace.

Bindings are indexed by subject, once per change of the bindings, so that a decision reads only those of its
user: the number of bindings in the cluster does not matter. Roles are read, compiled and aggregated on first
use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from fathom.api.auth.rules import EVERYTHING, RbacRule, ask_of, grants, rules_of
from fathom.api.request import RequestTarget
from fathom.model.causes import quoted
from fathom.model.objects import Key, Obj, labels_of, metadata
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.selectors import NOTHING, LabelSelector
from fathom.model.user import MASTERS, User
from fathom.model.view import View

ROLES = f"roles.{RBAC_GROUP}"
CLUSTER_ROLES = f"clusterroles.{RBAC_GROUP}"
ROLE_BINDINGS = f"rolebindings.{RBAC_GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{RBAC_GROUP}"


BROKEN_MAX = 10  # At most this many missing roles are named in a refusal.


class RbacDecision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str = ""
    override: str = ""  # The override that allows it, where no role does: break-glass.


class RbacVerdict(NamedTuple):
    decision: RbacDecision
    by_name: bool  # Another object name could change the answer.


class Grant(NamedTuple):
    """One binding, for one of its subjects."""

    binding: Obj
    subject: Obj


class RbacRules(msgspec.Struct, frozen=True):
    """All rules that apply to a user in a namespace."""

    rules: tuple[RbacRule, ...]
    errors: tuple[str, ...] = ()  # Bindings that name a missing role.


def account_user(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


class _Bindings:
    """The bindings of one resource by (namespace, subject). Rebuilt completely when the resource has
    changed."""

    def __init__(self, view: View, resource: str) -> None:
        self._view = view
        self._resource = resource
        self._built_at = -1
        self._grants: dict[tuple[str, str], list[Grant]] = {}

    def of(self, namespace: str, subject: str) -> Iterable[Grant]:
        now_at = self._view.revision(self._resource)
        if now_at != self._built_at:
            self._grants = self._index()
            self._built_at = now_at
        return self._grants.get((namespace, subject), ())

    def _index(self) -> dict[tuple[str, str], list[Grant]]:
        by_subject: dict[tuple[str, str], list[Grant]] = {}
        for seen in self._view.list(self._resource):
            binding = seen.obj
            namespace = metadata(binding).get("namespace") or ""
            for subject in binding.get("subjects") or ():
                by_subject.setdefault((namespace, _subject(subject, namespace)), []).append(
                    Grant(binding, subject)
                )
        return by_subject


def _subject(subject: Obj, namespace: str) -> str:
    """A service account is the user of its tokens. An unknown kind of subject, or an account without a
    namespace, matches no user."""
    name = subject.get("name") or ""
    match subject.get("kind"):
        case "User":
            return f"user {name}"
        case "Group":
            return f"group {name}"
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return f"user {account_user(home, name)}" if home else ""
        case _:
            return ""


class Rbac:
    def __init__(self, view: View) -> None:
        self._view = view
        self._cluster_wide = _Bindings(view, CLUSTER_ROLE_BINDINGS)
        self._in_namespaces = _Bindings(view, ROLE_BINDINGS)
        self._compiled: dict[tuple[str, Key], tuple[RbacRule, ...] | None] = {}  # As of `_compiled_at`.
        self._compiled_at = (-1, -1)

    def stamp(self) -> tuple[int, int, int, int]:
        """Changes whenever any decision might."""
        revision = self._view.revision
        return (
            revision(CLUSTER_ROLE_BINDINGS),
            revision(ROLE_BINDINGS),
            revision(CLUSTER_ROLES),
            revision(ROLES),
        )

    def decide(self, user: User, target: RequestTarget) -> RbacVerdict:
        ask = ask_of(target)
        by_name = False
        broken: list[str] = []
        looked_at: set[int] = set()
        for grant in self.grants(user, target.namespace if target.plural else ""):
            rules = self.rules(grant)
            if rules is None:
                broken.append(_dangling(grant))
                continue
            if id(rules) in looked_at:
                continue  # Bound to the same role again, which does not allow it: roles can be long.
            looked_at.add(id(rules))
            for rule in rules:
                if not grants(rule, ask):
                    continue
                if not rule.names or not target.plural:
                    return RbacVerdict(RbacDecision(True, _allowed_by(grant)), by_name=False)
                by_name = True
                if target.name in rule.names:
                    return RbacVerdict(RbacDecision(True, _allowed_by(grant)), by_name=True)
        return RbacVerdict(RbacDecision(False, _broken(broken)), by_name=by_name)

    def rules_for(self, user: User, namespace: str) -> RbacRules:
        rules: dict[RbacRule, None] = dict.fromkeys(EVERYTHING if MASTERS in user.groups else ())
        broken: list[str] = []
        for grant in self.grants(user, namespace):
            granted = self.rules(grant)
            if granted is None:
                broken.append(_dangling(grant))
            rules.update(dict.fromkeys(granted or ()))
        return RbacRules(tuple(rules), tuple(dict.fromkeys(broken)))

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """The user's bindings: cluster-wide first, then those of the namespace, if one is given."""
        subjects = (f"user {user.name}", *(f"group {group}" for group in user.groups))
        for subject in subjects:
            yield from self._cluster_wide.of("", subject)
        if namespace:
            for subject in subjects:
                yield from self._in_namespaces.of(namespace, subject)

    def rules(self, grant: Grant) -> tuple[RbacRule, ...] | None:
        ref = grant.binding.get("roleRef") or {}
        return self.role_rules(ref, metadata(grant.binding).get("namespace") or "")

    def role_rules(self, ref: Obj, namespace: str) -> tuple[RbacRule, ...] | None:
        """The rules of a roleRef, aggregated; None if the role does not exist."""
        now_at = (self._view.revision(CLUSTER_ROLES), self._view.revision(ROLES))
        if now_at != self._compiled_at:
            self._compiled, self._compiled_at = {}, now_at
        kind = str(ref.get("kind"))
        key = (kind, Key(namespace if kind == "Role" else "", str(ref.get("name"))))
        if key not in self._compiled:
            self._compiled[key] = self._compile(*key)
        return self._compiled[key]

    def _compile(self, kind: str, key: Key) -> tuple[RbacRule, ...] | None:
        if kind == "ClusterRole":
            seen = self._view.get(CLUSTER_ROLES, key)
            return None if seen is None else aggregated(seen.obj, self._view)
        seen = self._view.get(ROLES, key) if kind == "Role" and key.namespace else None
        return None if seen is None else rules_of(seen.obj.get("rules"))


def aggregated(role: Obj, view: View) -> tuple[RbacRule, ...]:
    """A ClusterRole's rules. With an aggregationRule they are those of the roles it selects, and of the roles
    that these select in turn; its own `rules` field is then only a copy of that, and is ignored."""
    rules: dict[RbacRule, None] = {}
    waiting = [role]
    reached = {metadata(role).get("name")}
    while waiting:
        current = waiting.pop(0)
        raw = (current.get("aggregationRule") or {}).get("clusterRoleSelectors")
        if not raw:
            rules.update(dict.fromkeys(rules_of(current.get("rules"))))
            continue
        selectors = [_selector(raw_selector) for raw_selector in raw]
        for seen in view.list(CLUSTER_ROLES):
            name = metadata(seen.obj).get("name")
            if name not in reached and any(selector.matches(labels_of(seen.obj)) for selector in selectors):
                reached.add(name)
                waiting.append(seen.obj)
    return tuple(rules)


def _selector(raw: Obj) -> LabelSelector:
    try:
        return LabelSelector.from_object(raw)
    except ValueError:  # Stored before it was validated: it selects nothing rather than everything.
        return NOTHING


def _allowed_by(grant: Grant) -> str:
    """In kube-apiserver's words: RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "u"."""
    meta = metadata(grant.binding)
    ref = grant.binding.get("roleRef") or {}
    namespace = meta.get("namespace") or ""
    kind, name = (
        ("RoleBinding", f"{meta.get('name')}/{namespace}")
        if namespace
        else (
            "ClusterRoleBinding",
            str(meta.get("name")),
        )
    )
    subject_name = str(grant.subject.get("name"))
    if grant.subject.get("kind") == "ServiceAccount":
        subject_name += f"/{grant.subject.get('namespace') or namespace}"
    to = f"{grant.subject.get('kind')} {quoted(subject_name)}"
    return (
        f"RBAC: allowed by {kind} {quoted(name)} of {ref.get('kind')} {quoted(str(ref.get('name')))} to {to}"
    )


def _dangling(grant: Grant) -> str:
    ref = grant.binding.get("roleRef") or {}
    return f"{str(ref.get('kind')).lower()}.{RBAC_GROUP} {quoted(str(ref.get('name')))} not found"


def _broken(errors: list[str]) -> str:
    unique = list(dict.fromkeys(errors))
    if not unique:
        return ""
    if len(unique) > BROKEN_MAX:
        unique = [*unique[:BROKEN_MAX], f"and {len(unique) - BROKEN_MAX} more"]
    return f"RBAC: {unique[0]}" if len(unique) == 1 else f"RBAC: [{', '.join(unique)}]"
