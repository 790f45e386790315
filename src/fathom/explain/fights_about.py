"""The fights that go on about the subject of a question: what two writers change back and forth.

Of a workload: about itself, its ReplicaSets, pods and autoscalers, and about nodes, where its pods may go.
The API server's detector names them in the ComponentSignals `field-fights`.
"""

from __future__ import annotations

from fathom.explain.coupling.fight_texts import ToldFight, told_fights
from fathom.explain.evidence import Evidence
from fathom.explain.why_of.lookups import (
    AUTOSCALERS,
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    owned_by,
    subject_of,
    title,
)
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup

SIGNALS = "componentsignals.fathom.dev"
FIELD_FIGHTS = Key("", "field-fights")
AGENT = "agent/"  # It is named after its node.


def fights_about(evidence: Evidence) -> tuple[str, ...]:
    """'Deployment shop/web: spec.replicas is changed back and forth by … and …, every 15 s, since …'."""
    signals, subject = evidence.objects.get(SIGNALS, FIELD_FIGHTS), subject_of(evidence)
    condition = find_condition(conditions_of(signals or {}), "TwoWriters") or {}
    if subject is None or condition.get("status") != "True":
        return ()
    names = _related(evidence, subject)
    fights = [each for each in told_fights(str(condition.get("message") or "")) if _concerns(each, names)]
    lines = (f"{title(each.resource, _key(each))}: {each.text}" for each in fights)
    return tuple(line for line in lines if evidence.may_read_nodes or AGENT not in line)


def _key(fight: ToldFight) -> Key:
    namespace, _, name = fight.path.rpartition("/")
    return Key(namespace, name)


def _related(evidence: Evidence, subject: Obj) -> set[tuple[str, str]]:
    """(resource, NAMESPACE/NAME); a name that ends with '-' is the beginning of names: replacements of pods
    have other names."""
    resource = evidence.subject.resource
    related = {(resource, _path(subject))}
    if resource == DEPLOYMENTS:
        sets = owned_by(evidence, REPLICA_SETS, subject)
        related |= {(REPLICA_SETS, _path(each)) for each in sets}
        related |= {(PODS, f"{_path(each)}-") for each in sets}
        scaling = evidence.objects.list(AUTOSCALERS, key_of(subject).namespace)
        name = key_of(subject).name
        related |= {
            (AUTOSCALERS, _path(each))
            for each in scaling
            if lookup(each, "spec", "scaleTargetRef", "name") == name
        }
    if resource == REPLICA_SETS:
        related.add((PODS, f"{_path(subject)}-"))
    if resource != NODES and evidence.may_read_nodes:
        related |= {(NODES, _path(each)) for each in evidence.objects.list(NODES)}
    return related


def _path(obj: Obj) -> str:
    return "/".join(part for part in key_of(obj) if part)


def _concerns(fight: ToldFight, related: set[tuple[str, str]]) -> bool:
    if (fight.resource, fight.path) in related:
        return True
    return any(
        resource == fight.resource and path.endswith("-") and fight.path.startswith(path)
        for resource, path in related
    )
