"""The admission policy for overrides in a Kubernetes that is not fathom's, and what it vouches for.

fathom's own server stamps the author of an override and checks a verb for each of its changes. Elsewhere a
ValidatingAdmissionPolicy does: the author is an annotation that must be the user's own name. A process that
honours overrides there reads the policy back first. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.kinds.override_changes import CHANGES, INFRASTRUCTURE_TARGETS
from fathom.kinds.shape import GROUP
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Obj, metadata
from fathom.model.times import SECOND_NS, moment_ns

NAME = "fathom-overrides"  # Of the policy, and of its binding.
AUTHOR = "fathom.dev/author"  # Annotation: who created the override.
OVERRIDES = "scheduleroverrides"
# API servers watch policies, and compile them after that: one is not in force at once everywhere.
SETTLES_S = 10

_AUTHOR_OF = (
    "has({0}.metadata.annotations) && '{1}' in {0}.metadata.annotations"
    " ? {0}.metadata.annotations['{1}'] : ''"
)
_IS_NEW = "request.operation == 'CREATE'"


def policy_spec() -> Obj:
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [OVERRIDES],
                    "scope": "*",
                }
            ],
        },
        "variables": [
            {"name": "author", "expression": _AUTHOR_OF.format("object", AUTHOR)},
            {"name": "authorBefore", "expression": _AUTHOR_OF.format("oldObject", AUTHOR)},
        ],
        "validations": [_own_name(), _unchanged(), _infrastructure(), *_verbs()],
    }


def binding_spec() -> Obj:
    return {"policyName": NAME, "validationActions": ["Deny"]}


def _own_name() -> Obj:
    must = f"the annotation {AUTHOR} must be your own user name"
    return {
        "expression": f"!({_IS_NEW}) || variables.author == request.userInfo.username",
        "message": f"{must}: see kubectl auth whoami",
        "messageExpression": f"'{must}, ' + request.userInfo.username",
        "reason": "Invalid",
    }


def _unchanged() -> Obj:
    return {
        "expression": f"{_IS_NEW} || (object.spec == oldObject.spec"
        " && variables.author == variables.authorBefore)",
        "message": f"spec and annotation {AUTHOR} cannot be changed: end the override, create another",
        "reason": "Invalid",
    }


def _infrastructure() -> Obj:
    kinds = "|".join(INFRASTRUCTURE_TARGETS)
    return {
        "expression": f"!object.spec.target.matches('^({kinds})/')"
        f" || request.namespace == '{SYSTEM_NAMESPACE}'",
        "message": f"an override of infrastructure must be in the namespace {SYSTEM_NAMESPACE}",
        "reason": "Invalid",
    }


def _verbs() -> list[Obj]:
    """A rule for each verb that a change needs."""
    by_verb: dict[str, list[str]] = {}
    for change, rule in CHANGES.items():
        by_verb.setdefault(rule.verb, []).append(change)
    return [_verb(verb, changes) for verb, changes in by_verb.items()]


def may(verb: str) -> str:
    """Whether the user has the verb, in CEL."""
    where = f"authorizer.group('{GROUP}').resource('{OVERRIDES}').namespace(request.namespace)"
    return f"{where}.check('{verb}').allowed()"


def _verb(verb: str, changes: list[str]) -> Obj:
    used = " || ".join(f"has(object.spec.changes.{change})" for change in changes)
    return {
        "expression": f"!({_IS_NEW}) || !({used}) || {may(verb)}",
        "message": f"{', '.join(changes)}: the verb {verb} on {OVERRIDES}.{GROUP} is needed",
        "reason": "Forbidden",
    }


class Vouching(msgspec.Struct, frozen=True):
    """Whether the server's policy vouches for overrides that are created now, and since when it did."""

    since_ns: int | None = None  # None: it does not.
    why_not: str = ""


def vouching(policy: Obj | None, binding: Obj | None) -> Vouching:
    """What these two, as they were read from the server, vouch for."""
    for obj, what, spec in (
        (policy, "ValidatingAdmissionPolicy", policy_spec()),
        (binding, "ValidatingAdmissionPolicyBinding", binding_spec()),
    ):
        why = _lack(obj, f"{what} {NAME}", spec)
        if why:
            return Vouching(None, why)
    created = [moment_ns(metadata(obj or {}).get("creationTimestamp")) or 0 for obj in (policy, binding)]
    return Vouching(max(created) + SETTLES_S * SECOND_NS)


def _lack(obj: Obj | None, what: str, spec: Obj) -> str:
    if obj is None:
        return f"there is no {what}"
    if metadata(obj).get("deletionTimestamp"):
        return f"{what} is being deleted"
    if _without_defaults(obj.get("spec")) != _without_defaults(spec):
        return f"{what} is not the one that this version of fathom installs"
    return ""


_DEFAULTS: dict[str, Any] = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "scope": "*"}


def _without_defaults(value: Any) -> Any:
    """Without what a server adds to a spec, so that only somebody's change is a difference."""
    if isinstance(value, dict):
        inner = {name: _without_defaults(each) for name, each in value.items()}
        return {
            name: each
            for name, each in inner.items()
            if each not in (None, {}, []) and _DEFAULTS.get(name) != each
        }
    return [_without_defaults(each) for each in value] if isinstance(value, list) else value
