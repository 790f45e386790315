"""The fights that go on about the subject of a question: what two writers change back and forth.

Of a workload: about itself, its ReplicaSets, pods and autoscalers, and about nodes, where its pods may go.
The API server's detector names them in the ComponentSignals `field-fights`.
"""

from __future__ import annotations

import msgspec

from fathom.explain.evidence import Evidence
from fathom.explain.why_of.lookups import NODES, PODS, owned_by, subject_of, title
from fathom.kinds.component_signals import ComponentSignals, FieldFight
from fathom.kinds.shape import read
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.resource_names import AUTOSCALERS, DEPLOYMENTS, REPLICA_SETS

SIGNALS = "componentsignals.fathom.dev"
FIELD_FIGHTS = Key("", "field-fights")
TWO_WRITERS = "TwoWriters"
AGENT = "agent/"  # It is named after its node.


def fights_about(evidence: Evidence) -> tuple[str, ...]:
    """'Deployment shop/web: spec.replicas is changed back and forth by … and …, every 15 s, since …'."""
    signals, subject = evidence.objects.get(SIGNALS, FIELD_FIGHTS), subject_of(evidence)
    if signals is None or subject is None:
        return ()
    related = _related(evidence, subject)
    fights = [fight for fight in read(ComponentSignals, signals).status.fights if fight.form == TWO_WRITERS]
    return tuple(
        f"{title(fight.resource, _key(fight))}: {fight.text}"
        for fight in fights
        if related.include(fight) and (evidence.may_read_nodes or not _names_a_node(fight))
    )


def _key(fight: FieldFight) -> Key:
    return Key(fight.namespace, fight.name)


def _names_a_node(fight: FieldFight) -> bool:
    return any(writer.startswith(AGENT) for writer in fight.writers)


class _Related(msgspec.Struct):
    objects: dict[tuple[str, Key], None]
    replica_sets: list[Key]  # Their pods are named after them; replacements of pods have other names.

    def include(self, fight: FieldFight) -> bool:
        if (fight.resource, _key(fight)) in self.objects:
            return True
        return fight.resource == PODS and any(
            fight.namespace == owner.namespace and fight.name.startswith(f"{owner.name}-")
            for owner in self.replica_sets
        )


def _related(evidence: Evidence, subject: Obj) -> _Related:
    resource, key = evidence.subject.resource, key_of(subject)
    sets = owned_by(evidence, REPLICA_SETS, subject) if resource == DEPLOYMENTS else []
    objects = [(resource, key), *((REPLICA_SETS, key_of(owned)) for owned in sets)]
    if resource == DEPLOYMENTS:
        scaling = evidence.objects.list(AUTOSCALERS, key.namespace)
        objects += [(AUTOSCALERS, key_of(scaler)) for scaler in scaling if _target_of(scaler) == key.name]
    if resource != NODES and evidence.may_read_nodes:
        objects += [(NODES, key_of(node)) for node in evidence.objects.list(NODES)]
    owners = [key_of(owned) for owned in sets]
    return _Related(dict.fromkeys(objects), [key] if resource == REPLICA_SETS else owners)


def _target_of(scaler: Obj) -> object:
    return lookup(scaler, "spec", "scaleTargetRef", "name")
