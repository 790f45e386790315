"""What an Explanation may ask, by its `spec.view`: why (the default), status, stuck. Pure.

`wanted` says which records the question needs; `answer` makes the answer from all the evidence.
"""

from __future__ import annotations

import msgspec

from fathom.explain.cordons import cordoned_nodes
from fathom.explain.evidence import Evidence, Gap, ObjectRef, Objects, RecordQuery
from fathom.explain.fights_about import fights_about
from fathom.explain.hidden_names import HiddenNames, hidden_from
from fathom.explain.status import StatusView, explain_status
from fathom.explain.why import pod
from fathom.explain.why.answer import Explanation
from fathom.explain.why.case import cluster_of
from fathom.explain.why_of.active_overrides import with_overrides
from fathom.explain.why_of.kinds import explain_object, wanted_records
from fathom.explain.why_of.lookups import PODS, SERVICES, ref
from fathom.explain.why_of.service_levels import services_of
from fathom.explain.why_of.stuck import stuck
from fathom.model.objects import Obj, key_of, uid_of
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.loop.cluster_view import ClusterView

WHY, STATUS, STUCK = "", "status", "stuck"
VIEWS = (WHY, STATUS, STUCK)


class StuckObjects(msgspec.Struct, frozen=True, rename="camel"):
    """Every object that is not as wanted, worst first."""

    as_wanted: bool
    items: tuple[Explanation, ...]
    gaps: tuple[Gap, ...] = ()


def wanted(subject: ObjectRef, objects: Objects, *, view: str = WHY) -> RecordQuery:
    """A list of what is stuck is made from the objects alone: their records would be those of the cluster.
    Who cordoned nodes is asked where the list has nodes."""
    if view == STUCK:
        return RecordQuery(writes_of=() if subject.name else cordoned_nodes(objects))
    if view == WHY and subject.resource == PODS:
        return pod.wanted(subject, objects)
    query = wanted_records(subject, objects)
    return _with_services(query, subject, objects) if view == STATUS else query


def _with_services(query: RecordQuery, subject: ObjectRef, objects: Objects) -> RecordQuery:
    """The gateway is asked about the Services of the workload too."""
    workload = objects.get(subject.resource, subject.key)
    if workload is None:
        return query
    services = [ref(SERVICES, service) for service in services_of(objects, workload)]
    # First: of very many objects, only the first are asked about.
    return msgspec.structs.replace(query, objects=tuple(dict.fromkeys((*services, *query.objects))))


def answer(
    evidence: Evidence, *, view: str = WHY, rules: Rules = RULES, cluster: ClusterView | None = None
) -> StatusView | StuckObjects | Explanation:
    """`rules`: the scheduler's, with those that users have installed. `cluster`: its view of the evidence's
    objects, where the caller has one. Raises NoSubject, NoExplanation."""
    if view == STATUS:
        return explain_status(evidence)
    if view == STUCK:
        items = tuple(stuck(_in_namespace(evidence), explain_pod=PodExplainer(rules, cluster, brief=True)))
        return StuckObjects(not items, items, evidence.gaps)
    return why(evidence, rules=rules, cluster=cluster)


def why(evidence: Evidence, *, rules: Rules = RULES, cluster: ClusterView | None = None) -> Explanation:
    """Raises NoExplanation."""
    if evidence.subject.resource == PODS:  # Also one that is gone, or was refused.
        explanation = pod.explain(evidence.subject, evidence, rules=rules, cluster=cluster)
    else:
        explanation = explain_object(evidence, explain_pod=PodExplainer(rules, cluster))
    return msgspec.structs.replace(with_overrides(explanation, evidence), fights=fights_about(evidence))


class PodExplainer:
    """Explains pods of one evidence: the scheduler's view of the cluster is made once, if it is needed."""

    def __init__(self, rules: Rules, cluster: ClusterView | None = None, *, brief: bool = False) -> None:
        self._rules = rules
        self._brief = brief  # For a list of many: pods that are as wanted are not looked at closely.
        self._cluster = cluster
        self._hidden: HiddenNames | None = None

    def __call__(self, obj: Obj, evidence: Evidence) -> Explanation:
        if self._cluster is None:
            attached = bool(evidence.attached)
            self._cluster = cluster_of(evidence.objects, self._rules, attached=attached)
        if self._hidden is None:
            self._hidden = hidden_from(evidence)
        subject = ObjectRef(PODS, *key_of(obj), uid_of(obj))
        return pod.explain(
            subject,
            evidence,
            cluster=self._cluster,
            rules=self._rules,
            hidden=self._hidden,
            brief=self._brief,
        )


def _in_namespace(evidence: Evidence) -> Evidence:
    """What is stuck is asked about a Namespace; without a name, about the whole cluster."""
    subject = ObjectRef("", evidence.subject.name, "")
    return msgspec.structs.replace(evidence, subject=subject)
