"""The answer of an OverridePreview: its fields, its token, and whether it still holds. Pure.

    fork     two futures of the cluster, one with the override, each in several seeds; then after its end.
             Of a run of a runbook: one future in which all of its steps are carried out
    what-if  for who may not fork the cluster: the scheduler's decision about waiting pods, and nothing else

A preview holds while nothing that it touched has moved: see `moved_since`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from fathom.model.objects import Obj, labels_of, metadata, uid_of

FORK, WHAT_IF = "fork", "what-if"
HASH_DIGITS = 16


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """On the wire in camelCase, and with all of its fields: a count of 0 is an answer."""


class Counts(_Part, frozen=True):
    """Pods that have not ended, and how many of them were evicted on the way."""

    bound: dict[str, int] = {}  # By zone; '' for nodes without one.
    ready: int = 0
    pending: int = 0  # Without a node.
    evicted: int = 0  # Since the beginning.


class Outcome(_Part, frozen=True):
    """The cluster in one fork, at one moment."""

    seed: str
    cluster: Counts = Counts()
    target: Counts = Counts()  # The pods of the target's workload, or on the target's nodes.
    replicas: dict[str, int] = {}  # 'shop/Deployment/web' -> wanted; workloads that differ, and the target.


class Spread(_Part, frozen=True):
    """The smallest and the largest value over the seeds."""

    min: int
    max: int


class Difference(_Part, frozen=True, kw_only=True):
    """One count that the override changes in at least one seed."""

    of: str  # 'target', 'cluster', or a workload: 'shop/Deployment/web'.
    what: str  # 'bound', 'ready', 'pending', 'evicted', 'replicas'.
    zone: str | None = None  # Of pods that are bound.
    without: Spread
    with_: Spread = msgspec.field(name="with")
    change: Spread  # Seed by seed: with, less without.


class Futures(_Part, frozen=True):
    """The two futures at the same moment."""

    seconds: float  # Of virtual time since the beginning.
    without: tuple[Outcome, ...] = ()
    with_: tuple[Outcome, ...] = msgspec.field(name="with", default=())
    difference: tuple[Difference, ...] = ()
    override: Obj = {}  # Its status in the first fork; empty where it is gone.


class NotModelled(_Part, frozen=True):
    """What happens in the cluster and not in its fork."""

    name: str
    message: str


class Touched(_Part, frozen=True):
    """An object that the answer depends on, as it was."""

    kind: str
    namespace: str
    name: str
    generation: int = 0
    digest: str = ""  # Of labels and spec, where the kind has no generation, as Nodes.
    uid: str = ""


class Refusal(_Part, frozen=True):
    """What the API server answered to the override."""

    code: int
    reason: str
    message: str


class PodWhatIf(_Part, frozen=True):
    """A waiting pod, as the scheduler would decide about it."""

    pod: str
    now: str
    with_: str = msgspec.field(name="with")


class Moved(_Part, frozen=True):
    """An object that is not as it was."""

    kind: str
    namespace: str
    name: str
    message: str


class RunLine(_Part, frozen=True):
    """One line of a run's progress."""

    seconds: float  # Of virtual time since the run began.
    line: str  # As `fathom runbook run` prints it.


class RunStep(_Part, frozen=True):
    id: str
    state: str  # As in the record of a run.
    message: str = ""


class RunFuture(_Part, frozen=True):
    """What became of a run in one fork."""

    seed: str
    phase: str  # As in the record of a run.
    message: str = ""
    seconds: float | None = None  # When it had ended; None: it had not.
    steps: tuple[RunStep, ...] = ()  # In order.
    lines: tuple[RunLine, ...] = ()  # Its progress, of the first fork only.


class Preview(_Part, frozen=True, kw_only=True):
    """`status` of an OverridePreview."""

    token: str
    revision: int
    hash: str
    method: str  # FORK or WHAT_IF.
    reason: str = ""  # Why it is not from a fork.
    minutes: int
    seeds: tuple[str, ...] = ()
    now: Outcome | None = None
    without: tuple[Outcome, ...] = ()
    with_: tuple[Outcome, ...] = msgspec.field(name="with", default=())
    difference: tuple[Difference, ...] = ()
    seconds: float = 0.0  # Of virtual time when they were counted.
    override: Obj = {}  # Its status in the first fork then: what its changes do, and how far it reaches.
    after_the_end: Futures | None = None
    runs: tuple[RunFuture, ...] = ()  # Of a run of a runbook, in each fork.
    refused: Refusal | None = None  # The API server would refuse it; then nothing else is known.
    notes: tuple[str, ...] = ()  # What was assumed.
    what_if: tuple[PodWhatIf, ...] = ()
    not_modelled: tuple[NotModelled, ...] = ()
    touched: tuple[Touched, ...] = ()
    moved: tuple[Moved, ...] = ()  # Since then. Filled in when the preview is asked for by its token.


def preview_token(revision: int, hash_: str) -> str:
    return f"{revision}-{hash_}"


def tried_hash(obj: Obj) -> str:
    """Of what its author decides: namespace, name and spec. Labels and annotations change nothing."""
    meta = metadata(obj)
    decided = [meta.get("namespace") or "", meta.get("name") or "", obj.get("spec") or {}]
    encoded = msgspec.json.encode(decided, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:HASH_DIGITS]


def touched_object(kind: str, obj: Obj) -> Touched:
    """The object, as it is now."""
    meta = metadata(obj)
    generation = int(meta.get("generation") or 0)
    digest = "" if generation else _digest(obj)
    namespace, name = str(meta.get("namespace") or ""), str(meta.get("name") or "")
    return Touched(kind, namespace, name, generation, digest, uid_of(obj))


def _digest(obj: Obj) -> str:
    encoded = msgspec.json.encode([labels_of(obj), obj.get("spec")], order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:HASH_DIGITS]


def moved_since(preview: Obj, objects: Iterable[Obj]) -> tuple[Moved, ...]:
    """What the preview touched and is not as it was. `preview`: the OverridePreview with its status;
    `objects`: the objects of its `status.touched` as they are now, with their kinds; one that is missing is
    gone."""
    status = preview.get("status") or {}
    return moved_objects(msgspec.convert(status.get("touched") or [], tuple[Touched, ...]), objects)


def moved_objects(touched: Sequence[Touched], objects: Iterable[Obj]) -> tuple[Moved, ...]:
    now = {_place(obj): obj for obj in objects}
    moved = []
    for before in touched:
        message = _movement(before, now.get((before.kind, before.namespace, before.name)))
        if message:
            moved.append(Moved(before.kind, before.namespace, before.name, message))
    return tuple(moved)


def _place(obj: Obj) -> tuple[str, str, str]:
    meta = metadata(obj)
    return str(obj.get("kind") or ""), str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _movement(before: Touched, obj: Obj | None) -> str:
    """'' where it has not moved."""
    if obj is None:
        return "it is gone"
    now = touched_object(before.kind, obj)
    if before.uid and now.uid != before.uid:
        return "it was deleted and created again"
    if now.generation != before.generation:
        return f"its generation was {before.generation} and is {now.generation}"
    return "its labels or its spec have changed" if now.digest != before.digest else ""
