"""Reviews: queries about permissions and identities, sent as objects that are answered and not stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.api.auth.accounts import Refused
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.rules import RbacRule
from fathom.api.request import RequestTarget
from fathom.kube.definitions.kind import Kind
from fathom.model import causes
from fathom.model.accounts import NODES
from fathom.model.errors import Cause, bad_request, invalid, not_supported
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.user import User

AUTHORIZATION = "authorization.k8s.io"


def review(  # noqa: PLR0917
    kind: Kind, obj: Obj, user: User, authorizer: Authorizer, authenticator: Authenticator, namespace: str
) -> Obj:
    """Answer a review of any kind."""
    match kind.group, kind.kind:
        case "authorization.k8s.io", "SelfSubjectAccessReview":
            return review_self_access(obj, user, authorizer)
        case "authorization.k8s.io", "SubjectAccessReview":
            return review_access(obj, authorizer)
        case "authorization.k8s.io", "LocalSubjectAccessReview":
            return review_local_access(obj, namespace, authorizer)
        case "authorization.k8s.io", "SelfSubjectRulesReview":
            return review_rules(obj, user, authorizer)
        case "authentication.k8s.io", "TokenReview":
            return review_token(obj, authenticator)
        case "authentication.k8s.io", "SelfSubjectReview":
            return review_self(obj, user)
        case _:
            raise not_supported(kind.kind)


def review_self_access(obj: Obj, user: User, authorizer: Authorizer) -> Obj:
    """SelfSubjectAccessReview: may the caller do this?"""
    spec = _spec(obj)
    _refuse(obj, _attribute_faults(spec))
    return _judged(obj, user, spec, authorizer)


def review_access(obj: Obj, authorizer: Authorizer) -> Obj:
    """SubjectAccessReview: may the given user do this?"""
    spec = _spec(obj)
    _refuse(obj, [*_attribute_faults(spec), *_subject_faults(spec)])
    return _judged(obj, _subject(spec), spec, authorizer)


def review_local_access(obj: Obj, namespace: str, authorizer: Authorizer) -> Obj:
    """LocalSubjectAccessReview: may the given user do this, in this namespace?"""
    spec = _spec(obj)
    attributes = _fields(spec.get("resourceAttributes"))
    faults = [*_attribute_faults(spec), *_subject_faults(spec)]
    if spec.get("resourceAttributes") is not None and attributes.get("namespace") != namespace:
        faults.append(
            causes.invalid(
                "spec.resourceAttributes.namespace",
                attributes.get("namespace"),
                "must match metadata.namespace",
            )
        )
    if spec.get("nonResourceAttributes") is not None:
        faults.append(causes.invalid("spec.nonResourceAttributes", "", "disallowed on this kind of request"))
    _refuse(obj, faults)
    return _judged(obj, _subject(spec), spec, authorizer)


def review_rules(obj: Obj, user: User, authorizer: Authorizer) -> Obj:
    """SelfSubjectRulesReview: everything that the caller may do in a namespace."""
    namespace = _spec(obj).get("namespace")
    if not namespace or not isinstance(namespace, str):
        raise bad_request("no namespace on request")
    granted = authorizer.rules_for(user, namespace)
    glass = authorizer.break_glass
    rules = (*granted.rules, *(() if glass is None else glass.rules(user, namespace)))
    errors = list(granted.errors)
    if NODES in user.groups:
        errors.append("node authorizer does not support user rule resolution")
    status: Obj = {
        "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
        "nonResourceRules": [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls
        ],
        "incomplete": bool(errors),
    }
    if errors:
        status["evaluationError"] = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return {**obj, "status": status}


def review_token(obj: Obj, authenticator: Authenticator) -> Obj:
    """TokenReview: which user does this token authenticate?"""
    spec = _spec(obj)
    token = spec.get("token")
    if not token or not isinstance(token, str):
        raise bad_request("token is required for TokenReview in authentication")
    checked = authenticator.check_token(token, _texts(spec.get("audiences")))
    if isinstance(checked, Refused):
        return {**obj, "status": {"user": {}, "error": checked.why}}
    status = {"authenticated": True, "user": user_info(checked.user), "audiences": list(checked.audiences)}
    return {**obj, "status": status}


def review_self(obj: Obj, user: User) -> Obj:
    """SelfSubjectReview: who is the caller?"""
    return {**obj, "status": {"userInfo": user_info(user)}}


def user_info(user: User) -> Obj:
    info: Obj = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra}
    return info


def _spec(obj: Obj) -> Obj:
    return _fields(obj.get("spec"))


def _fields(value: Any) -> Obj:
    return value if isinstance(value, dict) else {}


def _judged(obj: Obj, user: User, spec: Obj, authorizer: Authorizer) -> Obj:
    decision = authorizer.authorize(user, _target(spec))
    status: Obj = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**obj, "status": status}


def _target(spec: Obj) -> RequestTarget:
    if spec.get("nonResourceAttributes") is not None:
        path = _fields(spec["nonResourceAttributes"])
        return RequestTarget(verb=_text(path, "verb"), path=_text(path, "path"))
    about = _fields(spec["resourceAttributes"])
    return RequestTarget(
        verb=_text(about, "verb"),
        path="",
        group=_text(about, "group"),
        version=_text(about, "version"),
        # RBAC never grants an empty resource; a target without a plural would be treated as a path.
        plural=_text(about, "resource") or " ",
        namespace=_text(about, "namespace"),
        name=_text(about, "name"),
        subresource=_text(about, "subresource"),
    )


def _text(attributes: Obj, field: str) -> str:
    return str(attributes.get(field) or "")


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, list) else ()


def _subject(spec: Obj) -> User:
    extra = _fields(spec.get("extra"))
    return User(
        name=_text(spec, "user"),
        groups=_texts(spec.get("groups")),
        uid=_text(spec, "uid"),
        extra=tuple((str(name).lower(), _texts(values)) for name, values in extra.items()),
    )


def _attribute_faults(spec: Obj) -> list[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [causes.invalid("spec.nonResourceAttributes", path, why)]
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [causes.invalid("spec.resourceAttributes", None, why)]
    return []


def _subject_faults(spec: Obj) -> list[Cause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [causes.invalid("spec.user", "", "at least one of user or group must be specified")]


def _refuse(obj: Obj, faults: Sequence[Cause]) -> None:
    if faults:
        name = str(lookup(metadata(obj), "name") or "")
        raise invalid(group=AUTHORIZATION, kind=str(obj.get("kind")), name=name, causes=faults)


def _resource_rule(rule: RbacRule) -> Obj:
    fields: Obj = {
        "verbs": list(rule.verbs),
        "apiGroups": list(rule.groups),
        "resources": list(rule.resources),
    }
    return {**fields, "resourceNames": list(rule.names)} if rule.names else fields
