"""The names that a user must not learn from an answer: of nodes, and of other tenants' objects. Pure.

Texts quote schedulers, agents, Events, conditions and other users' objects. So every text of an answer is
searched for the names, whatever it was made from; nothing depends on how a text is worded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from fathom.explain.evidence import Evidence, Objects, Recorded
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.record_query import victims_of
from fathom.model.tenancy import tenant_of

A_NODE, ANOTHER, A_TENANT = "a node", "an object of another namespace", "another tenant"
WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
# 'namespace/name', 'pods/namespace/name', a path of the API.
PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)+")
# 'node n1', 'its node n1': one noun is enough where the name is not shown.
OF_NODE = re.compile(r"\b(its )?node ([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)")
# Where our texts name a namespace, a tenant or an override without a path.
NAMED = re.compile(
    r"\b((?:namespaces?|tenants?|tenantquotas?|quotas?|overrides?|scheduleroverrides?)[ /:'\"]+)"
    r"([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)",
    re.IGNORECASE,
)
OWN_KINDS = (
    "pods", "deployments.apps", "replicasets.apps", "jobs.batch", "services",
    "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy", "scheduleroverrides.fathom.dev",
)  # fmt: skip
# Every cluster has them, so their names tell nothing; the objects in them are hidden like others.
WELL_KNOWN = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", SYSTEM_NAMESPACE})


class HiddenNames(msgspec.Struct, frozen=True):
    nodes: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()  # Other namespaces, and objects in them, as records name them.
    tenants: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.namespaces or self.words or self.tenants)

    def text(self, text: str) -> str:
        if not self:
            return text
        if text in self.words or text in self.tenants:
            return A_TENANT if text in self.tenants else ANOTHER
        if self.namespaces:
            text = PATH.sub(self._path, text)
        if self.words or self.tenants:
            text = NAMED.sub(self._named, text)
        return WORD.sub(self._word, OF_NODE.sub(self._of_node, text))

    def value(self, value: Any) -> Any:
        """The same document with every text searched, names of fields too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.value(item) for item in value)
        if isinstance(value, msgspec.Struct):
            fields = {field: self.value(getattr(value, field)) for field in value.__struct_fields__}
            return type(value)(**fields)
        return value

    def _path(self, match: re.Match[str]) -> str:
        parts = match[0].split("/")
        return ANOTHER if self.namespaces.intersection(parts[:-1]) else match[0]

    def _named(self, match: re.Match[str]) -> str:
        """A name such as 'test' or 'memory' is hidden only where it is a name: it may be a word, too."""
        name = match[2]
        if name in self.tenants:
            return f"{match[1]}({A_TENANT})"
        return f"{match[1]}({ANOTHER})" if name in self.words else match[0]

    def _of_node(self, match: re.Match[str]) -> str:
        if match[2] not in self.nodes:
            return match[0]
        return "its node" if match[1] else A_NODE

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        if word in self.nodes:
            return A_NODE
        if not word.isalpha():
            if word in self.tenants:
                return A_TENANT
            if word in self.words:
                return ANOTHER
        # A name with a domain after it is still the name.
        first, dot, rest = word.partition(".")
        return f"{A_NODE}.{rest}" if dot and first in self.nodes else word


NOTHING = HiddenNames()


def hidden_from(evidence: Evidence, *further: Objects) -> HiddenNames:
    """What the user of this evidence must not learn. `further`: other states of the cluster, as nodes of now
    may be named in an answer about the past."""
    if evidence.may_read_nodes and evidence.readable is None:
        return NOTHING
    states = (evidence.objects, *further)
    subject = evidence.subject
    nodes = frozenset() if evidence.may_read_nodes else frozenset(_nodes(evidence, states))
    if evidence.readable is None:
        return HiddenNames(nodes - {subject.name})
    all_namespaces = {key_of(obj).name for objects in states for obj in objects.list("namespaces")}
    all_namespaces |= set(_recorded_namespaces(evidence))
    own = {*evidence.readable, subject.namespace}
    namespaces = frozenset(all_namespaces - own - {"", SYSTEM_NAMESPACE})
    tenants = _tenants(evidence, states, namespaces)
    visible = {subject.name} | own | tenants.own | set(_own_names(evidence.objects, sorted(own)))
    foreign = set(_recorded_names(evidence, namespaces)) | (namespaces - WELL_KNOWN)
    return HiddenNames(
        nodes - {subject.name},
        namespaces,
        frozenset(foreign - visible - {""}),
        frozenset(tenants.others - visible - WELL_KNOWN - {""}),
    )


# Nodes.


def _nodes(evidence: Evidence, states: Iterable[Objects]) -> Iterator[str]:
    """Those that exist, and those that records name: nodes may be gone."""
    for objects in states:
        yield from (key_of(node).name for node in objects.list("nodes"))
        for pod in objects.list("pods"):
            yield from _named_by_pod(pod)
    for record in evidence.decisions:
        yield from nodes_of_record(record)
    yield from (entry.name for entry in evidence.audit if entry.resource == "nodes")
    for entry in evidence.audit:
        user, _, node = entry.user.rpartition(":")
        if user == "system:node":
            yield node


def _named_by_pod(pod: Obj) -> Iterator[str]:
    names = (lookup(pod, "spec", "nodeName"), lookup(pod, "status", "nominatedNodeName"))
    yield from (str(name) for name in names if name)


def nodes_of_record(record: Recorded) -> Iterator[str]:
    decision = record.kept.decision
    yield from (name for name in (decision.node, *decision.scores, *(record.nodes or ())) if name)
    subjects = [decision.subject, *(outcome.object for outcome in record.kept.outcomes if outcome.object)]
    yield from (subject.name for subject in subjects if subject.resource == "nodes")
    if decision.cause.resource == "nodes" and decision.cause.name:
        yield decision.cause.name


# Other namespaces.


def _recorded_objects(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Namespace and name of every object that the records name."""
    for record in evidence.decisions:
        decision = record.kept.decision
        yield decision.subject.namespace, decision.subject.name
        yield decision.cause.namespace, decision.cause.name
        for considered in (*decision.policies, *decision.overrides, *decision.quotas):
            yield considered.namespace, considered.name
        for outcome in record.kept.outcomes:
            if outcome.object is not None:
                yield outcome.object.namespace, outcome.object.name
        for victim in victims_of(decision.victims):
            namespace, _, name = victim.partition("/")
            yield namespace, name
    yield from ((entry.namespace, entry.name) for entry in evidence.audit)


def _recorded_namespaces(evidence: Evidence) -> Iterator[str]:
    yield from (namespace for namespace, _ in _recorded_objects(evidence))


def _recorded_names(evidence: Evidence, namespaces: frozenset[str]) -> Iterator[str]:
    yield from (name for namespace, name in _recorded_objects(evidence) if namespace in namespaces)


def _own_names(objects: Objects, home_namespaces: Iterable[str]) -> Iterator[str]:
    """Many namespaces have an object `web`: what the user has, the user may read."""
    for namespace in home_namespaces:
        for resource in OWN_KINDS if namespace else ():
            yield from (key_of(obj).name for obj in objects.list(resource, namespace))


# Tenants.


class _Tenants(msgspec.Struct, frozen=True):
    own: frozenset[str]
    others: frozenset[str]


def _tenants(evidence: Evidence, states: Iterable[Objects], hidden: frozenset[str]) -> _Tenants:
    own, all_tenants = set(), set()
    for objects in states:
        for namespace in objects.list("namespaces"):
            name = key_of(namespace).name
            tenant = tenant_of({"metadata": {"namespace": name}}, namespace)
            all_tenants.add(tenant)
            if name not in hidden:
                own.add(tenant)
        subject = objects.get(evidence.subject.resource, evidence.subject.key)
        if subject is not None and evidence.subject.namespace:
            home = objects.get("namespaces", Key("", evidence.subject.namespace))
            own.add(tenant_of(subject, home))
        all_tenants |= {key_of(quota).name for quota in objects.list(TENANT_QUOTAS)}
    return _Tenants(frozenset(own), frozenset(all_tenants - own))
