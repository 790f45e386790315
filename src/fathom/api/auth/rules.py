"""RBAC rules: what a rule grants, and whether some rules cover others. Pure, no cluster needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from fathom.api.request import RequestTarget
from fathom.model.causes import quoted
from fathom.model.objects import Obj

ALL = "*"

# A body of 3 MiB can spell billions of permissions; an honest role has tens. Beyond these limits, a role
# counts as not covered, and a refusal stops listing.
COMPARISONS_MAX = 1_000_000
GAPS_MAX = 1_000
LISTED_MAX = 100


class RbacRule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()  # 'pods', 'pods/log', '*/scale', '*'
    names: tuple[str, ...] = ()  # Empty: any name.
    urls: tuple[str, ...] = ()  # Non-resource paths; a trailing '*' matches what follows.


EVERYTHING = (
    RbacRule(verbs=(ALL,), groups=(ALL,), resources=(ALL,)),
    RbacRule(verbs=(ALL,), urls=(ALL,)),
)


def rules_of(raw: Any) -> tuple[RbacRule, ...]:
    """From a role's `rules`. A malformed rule grants nothing, and never fails a request."""
    return tuple(
        RbacRule(
            verbs=_strings(rule.get("verbs")),
            groups=_strings(rule.get("apiGroups")),
            resources=_strings(rule.get("resources")),
            names=_strings(rule.get("resourceNames")),
            urls=_strings(rule.get("nonResourceURLs")),
        )
        for rule in raw or ()
        if isinstance(rule, dict)
    )


def _strings(values: Any) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


def as_wire(rule: RbacRule) -> Obj:
    fields = {
        "verbs": rule.verbs,
        "apiGroups": rule.groups,
        "resources": rule.resources,
        "resourceNames": rule.names,
        "nonResourceURLs": rule.urls,
    }
    return {name: list(values) for name, values in fields.items() if values or name == "verbs"}


class AccessRequest(NamedTuple):
    """A Target in the form in which rules are matched. `name` is left out: see `RbacRule.names`."""

    verb: str
    group: str
    resource: str  # With its subresource: 'pods/log'. '' for a path.
    any_resource: str  # '*/log': matches the subresource of every resource.
    path: str


def ask_of(target: RequestTarget) -> AccessRequest:
    if not target.subresource:
        return AccessRequest(target.verb, target.group, target.plural, target.plural, target.path)
    resource = f"{target.plural}/{target.subresource}"
    return AccessRequest(target.verb, target.group, resource, f"*/{target.subresource}", target.path)


def grants(rule: RbacRule, ask: AccessRequest) -> bool:
    """Whether the rule grants the request, for the names it is limited to, if any."""
    if ask.verb not in rule.verbs and ALL not in rule.verbs:
        return False
    if not ask.resource:
        return any(url_matches(url, ask.path) for url in rule.urls)
    if ask.group not in rule.groups and ALL not in rule.groups:
        return False
    resources = rule.resources
    return ask.resource in resources or ALL in resources or ask.any_resource in resources


def url_matches(url: str, path: str) -> bool:
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


# Coverage. The writer of a role must hold what it grants. Splitting a rule into single permissions and
# checking each (the obvious way, and the twin in the tests) costs the product of four lists that the caller
# chooses. Instead each verb, group, resource and name gets the set of owner rules that match it, as the bits
# of an integer; elements with equal bits are judged together, and a combination is covered exactly when the
# bits of its parts intersect.


class _Axis(NamedTuple):
    field: str
    parts: dict[int, tuple[str, ...]]  # Owner rules that match, as bits -> the elements they match.


def uncovered(owner: Iterable[RbacRule], rules: Iterable[RbacRule]) -> list[RbacRule] | None:
    """The permissions of `rules` that `owner` does not hold, in groups; None: too many to decide."""
    held = tuple(dict.fromkeys(owner))
    wanted = tuple(dict.fromkeys(rules))
    if len(held) * sum(map(_size, wanted)) > COMPARISONS_MAX:
        return None
    missing: list[RbacRule] = []
    for looked_at, gap in enumerate(gap for rule in wanted for gap in _gaps(held, rule)):
        if looked_at == COMPARISONS_MAX:
            return None
        if gap is not None:
            missing.append(gap)
        if len(missing) == GAPS_MAX:
            break
    return missing


def _size(rule: RbacRule) -> int:
    return len(rule.verbs) + len(rule.groups) + len(rule.resources) + len(rule.names) + len(rule.urls)


def covers(owner: Iterable[RbacRule], rules: Iterable[RbacRule]) -> bool:
    return uncovered(owner, rules) == []


def _gaps(held: Sequence[RbacRule], rule: RbacRule) -> Iterator[RbacRule | None]:
    """One item per combination examined: None if it is covered."""
    every = (1 << len(held)) - 1
    verbs = _axis("verbs", rule.verbs, held, lambda own, verb: verb in own.verbs or ALL in own.verbs)
    if rule.urls:
        urls = _axis("urls", rule.urls, held, lambda own, url: any(url_matches(o, url) for o in own.urls))
        yield from _combine(every, (verbs, urls), RbacRule())
    if rule.resources:
        groups = _axis(
            "groups", rule.groups, held, lambda own, group: group in own.groups or ALL in own.groups
        )
        resources = _axis("resources", rule.resources, held, _resource_covered)
        unnamed = sum(1 << at for at, own in enumerate(held) if not own.names)
        names = _Axis("names", {unnamed: ()})
        if rule.names:
            names = _axis("names", rule.names, held, lambda own, name: not own.names or name in own.names)
        yield from _combine(every, (verbs, groups, resources, names), RbacRule())


def _axis(
    field: str, elements: Iterable[str], held: Sequence[RbacRule], covered: Callable[[RbacRule, str], bool]
) -> _Axis:
    parts: dict[int, list[str]] = {}
    for element in dict.fromkeys(elements):
        bits = sum(1 << at for at, own in enumerate(held) if covered(own, element))
        parts.setdefault(bits, []).append(element)
    return _Axis(field, {bits: tuple(matched) for bits, matched in parts.items()})


def _combine(bits: int, axes: Sequence[_Axis], gap: RbacRule) -> Iterator[RbacRule | None]:
    if not axes:
        yield None if bits else gap
        return
    field, parts = axes[0]
    for matching, elements in parts.items():
        chosen = msgspec.structs.replace(gap, **{field: elements})
        yield from _combine(bits & matching, axes[1:], chosen)


def _resource_covered(own: RbacRule, resource: str) -> bool:
    if resource in own.resources or ALL in own.resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in own.resources


def describe_missing(missing: Iterable[RbacRule]) -> list[str]:
    """One line per resource (and name) as kube-apiserver lists them, sorted, at most LISTED_MAX."""
    verbs_of: dict[RbacRule, list[str]] = {}
    for single in _single(missing):
        bare = msgspec.structs.replace(single, verbs=())
        if bare not in verbs_of and len(verbs_of) == LISTED_MAX:
            return [*_lines(verbs_of), "... and more"]
        verbs_of.setdefault(bare, []).extend(single.verbs)
    return _lines(verbs_of)


def _single(missing: Iterable[RbacRule]) -> Iterator[RbacRule]:
    for rule in missing:
        for url in rule.urls:
            yield RbacRule(verbs=rule.verbs, urls=(url,))
        for group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or ("",):
                    yield RbacRule(rule.verbs, (group,), (resource,), (name,) if name else ())


def _lines(verbs_of: dict[RbacRule, list[str]]) -> list[str]:
    return sorted(_compact(bare, list(dict.fromkeys(verbs))) for bare, verbs in verbs_of.items())


def _compact(rule: RbacRule, verbs: Sequence[str]) -> str:
    parts = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.urls),
        ("ResourceNames", rule.names),
        ("Verbs", verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted_list(values)}" for name, values in parts if values) + "}"


def quoted_list(values: Iterable[str]) -> str:
    return "[" + " ".join(quoted(value) for value in values) + "]"
