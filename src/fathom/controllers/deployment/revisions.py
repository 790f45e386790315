"""The revisions of a Deployment: one ReplicaSet per template, found by the template, numbered by annotation.

Pure. The annotations are Kubernetes' own: `kubectl rollout history` and `undo` read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from fathom.control.ownership import named_after, owned
from fathom.controllers.pod_states import created_s
from fathom.model.objects import NAME_ALPHABET, Obj, lookup, metadata
from fathom.model.well_known import LAST_APPLIED

HASH_LABEL = "pod-template-hash"
PREFIX = "deployment.kubernetes.io/"
REVISION, HISTORY = f"{PREFIX}revision", f"{PREFIX}revision-history"
DESIRED, MOST = f"{PREFIX}desired-replicas", f"{PREFIX}max-replicas"
# Annotations of the Deployment itself: not copied to its ReplicaSets.
OWN_NOTES = frozenset(
    {
        LAST_APPLIED,
        "deprecated.daemonset.template.generation",
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
        "fathom.dev/auto-revert",
        "fathom.dev/reverted-from",
        "fathom.dev/reverted-to",
    }
)
HASH_LENGTH = 10
HISTORY_LENGTH_MAX = 2000


class Sets(msgspec.Struct, frozen=True):
    """A Deployment's ReplicaSets. `old` in the order of creation."""

    new: Obj | None
    old: tuple[Obj, ...]

    @property
    def all(self) -> tuple[Obj, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def active(self) -> tuple[Obj, ...]:
        return tuple(replica_set for replica_set in self.all if size_of(replica_set) > 0)


def size_of(workload: Obj) -> int:
    replicas = lookup(workload, "spec", "replicas")
    return 1 if replicas is None else int(replicas)


def notes_of(obj: Obj) -> dict[str, str]:
    return metadata(obj).get("annotations") or {}


def revision_of(replica_set: Obj) -> int:
    text = notes_of(replica_set).get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def without_hash(template: Obj) -> Obj:
    meta = template.get("metadata") or {}
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name != HASH_LABEL}
    return {**template, "metadata": {**meta, "labels": labels}}


def template_of(obj: Obj) -> Obj:
    """Without the label that only ReplicaSets have, and without what a server may add to empty metadata."""
    template = without_hash(lookup(obj, "spec", "template") or {})
    meta = {name: value for name, value in template["metadata"].items() if value}
    return {**template, "metadata": meta}


def split(deployment: Obj, sets: Iterable[Obj]) -> Sets:
    """Finds the ReplicaSet with the Deployment's template: the oldest, if several have it."""
    ordered = sorted(
        sets, key=lambda replica_set: (created_s(replica_set), str(metadata(replica_set).get("name")))
    )
    template = template_of(deployment)
    new = next((replica_set for replica_set in ordered if template_of(replica_set) == template), None)
    return Sets(new, tuple(replica_set for replica_set in ordered if replica_set is not new))


def template_hash(deployment: Obj, collisions: int) -> str:
    """Of the template in a fixed order of fields. Another number of collisions gives another hash."""
    text = msgspec.json.encode([template_of(deployment), collisions], order="sorted")
    number = int.from_bytes(hashlib.sha256(text).digest()[:16], "big")
    letters = ""
    for _ in range(HASH_LENGTH):
        number, digit = divmod(number, len(NAME_ALPHABET))
        letters += NAME_ALPHABET[digit]
    return letters


def set_name(deployment: Obj, hash_: str) -> str:
    return named_after(str(metadata(deployment)["name"]), hash_)


def next_revision(sets: Sets) -> int:
    return max((revision_of(replica_set) for replica_set in sets.old), default=0) + 1


def set_of(deployment: Obj, *, hash_: str, replicas: int, notes: dict[str, str]) -> Obj:
    """The ReplicaSet of the Deployment's template."""
    template = lookup(deployment, "spec", "template") or {}
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), HASH_LABEL: hash_}
    selector = lookup(deployment, "spec", "selector") or {}
    matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_}
    spec: Obj = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": matched},
        "template": {**template, "metadata": {**meta, "labels": labels}},
    }
    if min_ready_s := lookup(deployment, "spec", "minReadySeconds"):
        spec["minReadySeconds"] = min_ready_s
    set_meta = {
        "name": set_name(deployment, hash_),
        "namespace": metadata(deployment)["namespace"],
        "labels": labels,
        "annotations": notes,
    }
    return owned({"metadata": set_meta, "spec": spec}, deployment)


def new_notes(deployment: Obj, sets: Sets) -> dict[str, str]:
    """The annotations of the newest ReplicaSet: those of the Deployment, and its revision. A ReplicaSet that
    is the newest again after a rollback keeps the list of its earlier revision numbers."""
    copied = {name: value for name, value in notes_of(deployment).items() if name not in OWN_NOTES}
    revision, before = next_revision(sets), 0 if sets.new is None else revision_of(sets.new)
    if before >= revision:
        return {**copied, REVISION: str(before)}
    notes = {**copied, REVISION: str(revision)}
    if sets.new is not None and before:
        notes[HISTORY] = _fitted([*_history(sets.new), str(before)])
    return notes


def _fitted(numbers: list[str]) -> str:
    """Drops the oldest numbers until the rest fits."""
    while len(text := ",".join(numbers)) > HISTORY_LENGTH_MAX:
        numbers = numbers[1:]
    return text


def _history(replica_set: Obj) -> list[str]:
    return [part for part in notes_of(replica_set).get(HISTORY, "").split(",") if part]


def outdated(deployment: Obj, sets: Sets) -> list[Obj]:
    """Old ReplicaSets to delete: empty by spec and status, and more than the history keeps."""
    limit = lookup(deployment, "spec", "revisionHistoryLimit")
    if limit is None:
        return []
    empty = [replica_set for replica_set in sets.old if _is_empty(replica_set)]
    surplus = len(empty) - int(limit)
    return (
        sorted(empty, key=lambda replica_set: (revision_of(replica_set), created_s(replica_set)))[:surplus]
        if surplus > 0
        else []
    )


def _is_empty(replica_set: Obj) -> bool:
    meta, status = metadata(replica_set), replica_set.get("status") or {}
    seen = (status.get("observedGeneration") or 0) >= (meta.get("generation") or 0)
    return (
        seen
        and not meta.get("deletionTimestamp")
        and size_of(replica_set) == 0
        and not (status.get("replicas") or 0)
    )


def total(sets: Sequence[Obj], field: str) -> int:
    """A sum of a field over their statuses."""
    return sum(int(lookup(replica_set, "status", field) or 0) for replica_set in sets)
