"""Which objects a timeline is about: the subject, its owners, what it owns, and what its decisions cite.

Objects are told apart by UID. A name that a record has without a UID is resolved only where it can mean one
object: the revision is that of a write on record, or the object that has the name now already had it then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Objects, committed_writes
from fathom.explain.timeline.overrides import overrides_holding
from fathom.explain.timeline.timeline import Role
from fathom.kinds.reservation import HOLDER_UID
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.scheduling_policy import DEFINITION as SCHEDULING_POLICY
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.audit import AuditEntry
from fathom.model.decision import Considered, Decision, Subject, verb_of
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.resource_names import AUTOSCALERS
from fathom.model.times import SECOND_NS, moment_ns

POLICIES = SCHEDULING_POLICY.resource
# Kinds whose objects have owners, or point at the object that they are about.
OWNED_KINDS = (
    "replicasets.apps", "pods", "jobs.batch", "endpointslices.discovery.k8s.io",
    "workloadprogresses.fathom.dev", "reservations.fathom.dev", "repairproposals.fathom.dev",
)  # fmt: skip
OWNED_MAX = 200  # Of a larger family, the rest is left out; the timeline says so.
DEPTH_MAX = 4
CREATE = "create"  # The verb of an outcome.


class Scope(msgspec.Struct, frozen=True):
    subject: ObjectRef
    obj: Obj | None  # The subject, if it exists.
    refs: Mapping[str, ObjectRef]  # By UID.
    roles: Mapping[str, Role]  # By UID.
    left_out: int = 0  # Owned objects beyond OWNED_MAX.
    held_by: tuple[ObjectRef, ...] = ()  # Overrides that target the subject.
    uncited: frozenset[str] = frozenset()  # UIDs of those of them that no decision cites.

    def role(self, uid: str) -> Role | None:
        return self.roles.get(uid)

    def has(self, uid: str) -> bool:
        return bool(uid) and uid in self.roles

    @property
    def uids(self) -> frozenset[str]:
        """The subject, its owners and what it owns: without what decisions only cite."""
        return frozenset(uid for uid, role in self.roles.items() if role != "cited")


def ref_of(resource: str, obj: Obj) -> ObjectRef:
    return ObjectRef(resource, *key_of(obj), uid_of(obj))


def resource_of(api_version: str, kind: str) -> str:
    """'apps/v1', 'ReplicaSet' -> 'replicasets.apps'"""
    word, group = kind.lower(), api_version.rpartition("/")[0]
    if word.endswith("y"):
        plural = f"{word[:-1]}ies"
    else:
        plural = f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"
    return f"{plural}.{group}" if group else plural


# From the objects alone.


def owners_of(obj: Obj, objects: Objects) -> Iterator[tuple[ObjectRef, Obj]]:
    """The chain of owners, nearest first; only owners that still exist under the UID that is named."""
    namespace = key_of(obj).namespace
    for reference in metadata(obj).get("ownerReferences") or ():
        resource = resource_of(str(reference.get("apiVersion", "")), str(reference.get("kind", "")))
        owner = objects.get(resource, Key(namespace, str(reference.get("name", ""))))
        if owner is not None and uid_of(owner) == reference.get("uid"):
            yield ref_of(resource, owner), owner
            yield from owners_of(owner, objects)


def owned_by(uids: Iterable[str], namespace: str, objects: Objects) -> list[ObjectRef]:
    """Everything below these UIDs: children, their children, and what is kept about them."""
    listed = [(kind, obj) for kind in OWNED_KINDS for obj in objects.list(kind, namespace)]
    known, refs = set(uids), []
    for _ in range(DEPTH_MAX):
        more = [(kind, obj) for kind, obj in listed if uid_of(obj) not in known and _parents(obj) & known]
        refs += [ref_of(kind, obj) for kind, obj in more]
        known |= {uid_of(obj) for _, obj in more}
        if not more:
            break
    return refs


def _parents(obj: Obj) -> set[str]:
    meta = metadata(obj)
    parents = {str(reference.get("uid")) for reference in meta.get("ownerReferences") or ()}
    parents.add(str((meta.get("annotations") or {}).get(HOLDER_UID) or ""))
    parents.add(str(lookup(obj, "spec", "workload", "uid") or ""))
    return parents - {""}


def autoscalers_of(refs: Iterable[ObjectRef], namespace: str, objects: Objects) -> list[ObjectRef]:
    """Autoscalers name their target, and have no UID of it: they mean whatever has that name."""
    names = {(ref.resource, ref.name) for ref in refs if ref.namespace == namespace}
    return [
        ref_of(AUTOSCALERS, autoscaler)
        for autoscaler in objects.list(AUTOSCALERS, namespace)
        if _target(autoscaler) in names
    ]


def scaled_by(autoscaler: Obj, objects: Objects) -> list[ObjectRef]:
    """The workload that an autoscaler scales; none for any other object."""
    resource, name = _target(autoscaler)
    workload = objects.get(resource, Key(key_of(autoscaler).namespace, name)) if name else None
    return [] if workload is None else [ref_of(resource, workload)]


def _target(autoscaler: Obj) -> tuple[str, str]:
    target = lookup(autoscaler, "spec", "scaleTargetRef") or {}
    resource = resource_of(str(target.get("apiVersion", "")), str(target.get("kind", "")))
    return resource, str(target.get("name", ""))


# From objects and records.


def scope_of(evidence: Evidence) -> Scope:
    objects = evidence.objects
    subject = subject_of(evidence)
    obj = _alive(subject, objects)
    refs: dict[str, ObjectRef] = {subject.uid: subject}
    roles: dict[str, Role] = {subject.uid: "subject"}
    owners = [ref for ref, _ in owners_of(obj, objects)] if obj is not None else []
    owned = owned_by({subject.uid} - {""}, subject.namespace, objects)
    owned += written_children(evidence, {subject.uid, *(ref.uid for ref in owned)})
    owned += scaled_by(obj, objects) if obj is not None else []
    owners += autoscalers_of([subject, *owners], subject.namespace, objects)
    owners += creators_of(subject, evidence)
    families: tuple[tuple[Role, list[ObjectRef]], ...] = (("owner", owners), ("owned", owned[:OWNED_MAX]))
    for role, listed in families:
        for ref in listed:
            refs.setdefault(ref.uid, ref)
            roles.setdefault(ref.uid, role)
    held_by = tuple(overrides_holding(subject, obj, objects))
    cited = cited_by(evidence, frozenset(roles))
    uncited = frozenset(ref.uid for ref in held_by) - {ref.uid for ref in cited}
    for ref in (*held_by, *cited):
        refs.setdefault(ref.uid, ref)
        roles.setdefault(ref.uid, "cited")
    refs.pop("", None)
    roles.pop("", None)
    return Scope(subject, obj, refs, roles, max(0, len(owned) - OWNED_MAX), held_by, uncited)


def subject_of(evidence: Evidence) -> ObjectRef:
    """With its UID: the one that was asked for, else that of the object that exists, else the newest on
    record."""
    subject = evidence.subject
    if subject.uid:
        return subject
    obj = evidence.objects.get(subject.resource, subject.key)
    uid = uid_of(obj) if obj is not None else _last_uid(subject, evidence)
    return msgspec.structs.replace(subject, uid=uid)


def _last_uid(subject: ObjectRef, evidence: Evidence) -> str:
    """That of the last commit. Times count only for objects without a write on record: the answer to an
    earlier object's removal may come late, and who has not heard of the removal decides about that one."""
    place = (subject.resource, subject.namespace, subject.name)
    writes = [entry for entry in committed_writes(evidence.audit, subject) if entry.uid]
    told = {"", *(entry.uid for entry in writes)}
    recorded = [(moment_ns(entry.time) or 0, entry.uid) for entry in evidence.audit if _place(entry) == place]
    recorded += [
        (record.kept.decision.time_ns, record.kept.decision.subject.uid)
        for record in evidence.decisions
        if _place(record.kept.decision.subject) == place
    ]
    last = [(moment_ns(entry.time) or 0, entry.uid) for entry in writes[-1:]]
    return max([*last, *((time_ns, uid) for time_ns, uid in recorded if uid not in told)], default=(0, ""))[1]


def _place(record: AuditEntry | Subject) -> tuple[str, str, str]:
    return record.resource, record.namespace, record.name


def _alive(ref: ObjectRef, objects: Objects) -> Obj | None:
    obj = objects.get(ref.resource, ref.key)
    return obj if obj is not None and (not ref.uid or uid_of(obj) == ref.uid) else None


def written_children(evidence: Evidence, owner_uids: set[str]) -> list[ObjectRef]:
    """Objects that a decision about an owner created, which may be deleted by now: their outcomes have the
    UIDs."""
    return list(
        dict.fromkeys(
            ObjectRef(written.resource, written.namespace, written.name, written.uid)
            for record in evidence.decisions
            if record.kept.decision.subject.uid in owner_uids
            for outcome in record.kept.outcomes
            if (written := outcome.object) is not None
            and written.uid
            and written.uid not in owner_uids
            and verb_of(record.kept.decision, outcome) == CREATE
        )
    )


def creators_of(subject: ObjectRef, evidence: Evidence) -> list[ObjectRef]:
    """Objects whose decisions created the subject: its owners, also where they or it are deleted by now."""
    return list(
        dict.fromkeys(
            ObjectRef(decided.resource, decided.namespace, decided.name, decided.uid)
            for record in evidence.decisions
            for outcome in record.kept.outcomes
            if outcome.object is not None
            and outcome.object.uid == subject.uid != ""
            and verb_of(record.kept.decision, outcome) == CREATE
            and (decided := record.kept.decision.subject).uid not in {"", subject.uid}
        )
    )


def cited_by(evidence: Evidence, uids: frozenset[str]) -> list[ObjectRef]:
    """Quotas, policies, overrides and nodes that decisions about these objects considered."""
    refs: dict[ObjectRef, None] = {}
    for record in evidence.decisions:
        decision = record.kept.decision
        if decision.subject.uid in uids:
            for ref in _citations(decision, evidence):
                if ref.uid:
                    refs[ref] = None
    return list(refs)


def _citations(decision: Decision, evidence: Evidence) -> Iterator[ObjectRef]:
    lists = ((decision.policies, POLICIES), (decision.overrides, OVERRIDES), (decision.quotas, TENANT_QUOTAS))
    for listed, resource in lists:
        for considered in listed:
            yield _considered(considered, resource, decision, evidence)
    if decision.node:
        uid = uid_at("nodes", Key("", decision.node), decision.time_ns, evidence)
        yield ObjectRef("nodes", "", decision.node, uid)


def _considered(considered: Considered, resource: str, decision: Decision, evidence: Evidence) -> ObjectRef:
    resource = considered.resource or resource
    namespace, _, name = considered.name.rpartition("/")
    namespace = considered.namespace or namespace
    uid = considered.uid or _uid_by_revision(resource, name, considered.revision, evidence)
    uid = uid or uid_at(resource, Key(namespace, name), decision.time_ns, evidence)
    return ObjectRef(resource, namespace, name, uid)


def _uid_by_revision(resource: str, name: str, revision: int, evidence: Evidence) -> str:
    writes = (entry for entry in evidence.audit if revision and entry.revision == revision)
    return next((entry.uid for entry in writes if (entry.resource, entry.name) == (resource, name)), "")


def uid_at(resource: str, key: Key, time_ns: int, evidence: Evidence) -> str:
    """The UID of the object that has this name now, if it surely existed then; else ''. Creation times are
    in whole seconds."""
    obj = evidence.objects.get(resource, key)
    if obj is None:
        return ""
    created_ns = moment_ns(metadata(obj).get("creationTimestamp"))
    return uid_of(obj) if created_ns is not None and created_ns + SECOND_NS <= time_ns else ""
