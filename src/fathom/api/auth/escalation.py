"""Prevents escalation: users cannot grant more permissions than they hold.

Writing a role requires every permission in it, and writing a binding those of the role it names, unless the
writer holds the verb `escalate` on the role, or `bind` on the role referred to. Without this, permission to
write roles would be permission to do everything. What break-glass allows for an hour is not held.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.rules import (
    EVERYTHING,
    RbacRule,
    describe_missing,
    quoted_list,
    rules_of,
    uncovered,
)
from fathom.api.request import RequestTarget
from fathom.kube.definitions.kind import Kind
from fathom.model.causes import quoted
from fathom.model.errors import ApiError, forbidden, not_found
from fathom.model.objects import Obj, metadata
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.user import MASTERS, User

ROLES = {"Role", "ClusterRole"}
BINDINGS = {"RoleBinding", "ClusterRoleBinding"}

# What the garbage collector changes in objects that it may not write otherwise.
COLLECTOR_FIELDS = {"ownerReferences", "finalizers", "resourceVersion", "managedFields", "generation"}


def check_escalation(user: User, kind: Kind, obj: Obj, old: Obj | None, authorizer: Authorizer) -> None:
    """Raise 403 if storing this role or binding (kind.group decides that it is one) would grant permissions
    that the user does not hold. `old` is None for a creation."""
    if kind.group != RBAC_GROUP or MASTERS in user.groups:
        return
    if old is not None and _for_collector(obj) == _for_collector(old):
        return
    if kind.kind in ROLES:
        _check_role(user, kind, obj, old, authorizer)
    elif kind.kind in BINDINGS:
        _check_binding(user, kind, obj, authorizer)


def _for_collector(obj: Obj) -> Obj:
    meta = {name: value for name, value in metadata(obj).items() if name not in COLLECTOR_FIELDS}
    return {**obj, "metadata": meta}


def _check_role(user: User, kind: Kind, obj: Obj, old: Obj | None, authorizer: Authorizer) -> None:
    meta = metadata(obj)
    namespace, name = meta.get("namespace") or "", meta.get("name") or ""
    escalate = _role("escalate", plural=kind.plural, namespace=namespace, name=name)
    if authorizer.by_roles(user, escalate).allowed:
        return
    fault = missing_rights(user, rules_of(obj.get("rules")), namespace, authorizer)
    if fault is None and (obj.get("aggregationRule") or (old or {}).get("aggregationRule")):
        # It aggregates all roles with matching labels, now or later: only users that may do everything may
        # write it.
        fault = missing_rights(user, EVERYTHING, "", authorizer)
        fault = fault and f"must have cluster-admin privileges to use an aggregationRule: {fault}"
    if fault:
        raise _refused(kind, name, fault)


def _check_binding(user: User, kind: Kind, obj: Obj, authorizer: Authorizer) -> None:
    ref = obj.get("roleRef") or {}
    namespace = metadata(obj).get("namespace") or ""
    plural = "roles" if ref.get("kind") == "Role" else "clusterroles"
    name = str(ref.get("name") or "")
    bind = _role("bind", plural=plural, namespace=namespace, name=name)
    if authorizer.by_roles(user, bind).allowed:
        return
    rules = authorizer.rbac.role_rules(ref, namespace)
    if rules is None:
        raise not_found(f"{plural}.{RBAC_GROUP}", name)
    fault = missing_rights(user, rules, namespace, authorizer)
    if fault:
        raise _refused(kind, metadata(obj).get("name") or "", fault)


def _role(verb: str, *, plural: str, namespace: str, name: str) -> RequestTarget:
    return RequestTarget(
        verb=verb, path="", group=RBAC_GROUP, version="v1", plural=plural, namespace=namespace, name=name
    )


def missing_rights(
    user: User, rules: Sequence[RbacRule], namespace: str, authorizer: Authorizer
) -> str | None:
    """What the user would grant without holding it, in kube-apiserver's words; None if nothing."""
    held = authorizer.rules_for(user, namespace)
    missing = uncovered(held.rules, rules)
    if missing == []:
        return None
    lines = ["... too many to compare"] if missing is None else describe_missing(missing)
    fault = (
        f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) "
        "is attempting to grant RBAC permissions not currently held:\n" + "\n".join(lines)
    )
    return f"{fault}; resolution errors: [{', '.join(held.errors)}]" if held.errors else fault


def _refused(kind: Kind, name: str, fault: str) -> ApiError:
    return forbidden(
        f"{kind.resource} {quoted(name)} is forbidden: {fault}", resource=kind.resource, name=name
    )
