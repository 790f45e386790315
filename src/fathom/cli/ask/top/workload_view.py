"""Page 2, Workload: stages of both generations, pods, why, rollout history, what to type. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from fathom.cli.ask.explanation_text import command_lines, explanation_lines
from fathom.cli.ask.top import seen as what
from fathom.cli.ask.top.helping import helping_command
from fathom.cli.ask.top.lines import Subject
from fathom.cli.ask.top.seen import Answer, ClusterSeen, PodSeen
from fathom.cli.ask.why import is_of
from fathom.cli.tables import natural
from fathom.kinds.shape import read
from fathom.kinds.workload_progress import Progress, WorkloadProgress
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, human_duration, moment_ns, timestamp

STAGES = ("admitted", "queued", "scheduled", "bound", "starting", "ready", "serving")
REVISION, CHANGE_CAUSE = "deployment.kubernetes.io/revision", "kubernetes.io/change-cause"


class WorkloadAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked about one object, beside what is followed of all."""

    explanation: Answer | None = None
    timeline: tuple[str, ...] = ()  # Lines, the newest last.
    obj: Obj | None = None
    replica_sets: tuple[Obj, ...] = ()
    notes: Mapping[str, str] = {}


class GenerationItem(msgspec.Struct, frozen=True, rename="camel"):
    generation: int  # The metadata.generation that is counted.
    desired: int  # How many replicas are wanted.
    stages: Mapping[str, int]  # Stage -> how many replicas have reached it.
    pending: tuple[str, ...] = ()  # '2 wait for image: …'


class PodItem(msgspec.Struct, frozen=True):
    name: str
    revision: str  # Of the template; '' where there are none.
    ready: str  # Ready containers, of all: '1/1'.
    status: str  # As in `kubectl get pods`.
    restarts: str  # Of its containers.
    node: str  # '-' before it is bound.
    age: str  # Since its creation.


class RevisionItem(msgspec.Struct, frozen=True, rename="camel"):
    revision: int  # The number of the revision.
    replica_set: str  # The ReplicaSet that has its template.
    replicas: int  # How many replicas it should have.
    ready: int  # How many are ready.
    age: str  # Since its creation.
    images: tuple[str, ...]  # Of its containers.
    change_cause: str = ""  # The annotation kubernetes.io/change-cause.
    current: bool = False  # Whether it is the newest.


class WorkloadView(msgspec.Struct, frozen=True, rename="camel"):
    """The page as data: `fathom top KIND/NAME -o json`."""

    time: str  # When the page was made.
    kind: str  # As it was asked for.
    namespace: str
    name: str
    lost_since: str  # When the server stopped to answer; '' if it answers.
    lost_why: str  # Why it does not answer.
    as_wanted: bool | None  # None: not known.
    why: tuple[str, ...]  # The first line says it; the rest is the evidence.
    helps: str  # The command that would help; '' if none is known.
    commands: tuple[str, ...]  # What else to type.
    current: GenerationItem | None  # The replicas of the newest generation; null: not counted.
    previous: GenerationItem | None  # Those of the generation before.
    pods: tuple[PodItem, ...]  # In the order of their names.
    history: tuple[RevisionItem, ...]  # The newest revision first.
    timeline: tuple[str, ...]  # Lines of what happened, the newest last.
    notes: Mapping[str, str]  # What could not be read, and why.


def workload_view(subject: Subject, seen: ClusterSeen, answers: WorkloadAnswers) -> WorkloadView:
    progress = progress_of(subject, seen)
    explanation = answers.explanation
    history = tuple(_history(answers, seen.now_ns))
    notes = {name: text for name, text in seen.notes.items() if name in {what.PODS, what.PROGRESS}}
    previous = progress.status.previous if progress else None
    return WorkloadView(
        time=timestamp(seen.now_ns),
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        lost_since=timestamp(seen.lost_since_ns) if seen.lost_since_ns else "",
        lost_why=seen.lost_why,
        as_wanted=None if explanation is None else bool(explanation.get("asWanted")),
        why=() if explanation is None else _why(explanation),
        helps=helping_command(explanation),
        commands=tuple(_commands(subject, history)),
        current=_generation(progress.status.current) if progress else None,
        previous=_generation(previous) if previous else None,
        pods=tuple(_pods(subject, seen, answers)),
        history=history,
        timeline=answers.timeline,
        notes={**notes, **answers.notes},
    )


def _why(explanation: Answer) -> tuple[str, ...]:
    """Without the command: it has a field of its own."""
    commands = command_lines(explanation)
    return tuple(each for each in explanation_lines(explanation) if each not in commands)


def progress_of(subject: Subject, seen: ClusterSeen) -> WorkloadProgress | None:
    for key, obj in seen.progress.items():
        kind = str(lookup(obj, "spec", "workload", "kind") or "").lower()
        same = key.namespace == subject.namespace and lookup(obj, "spec", "workload", "name") == subject.name
        if same and is_of(subject.kind, f"{kind}s"):
            try:
                return read(WorkloadProgress, obj)
            except ValueError:
                return None
    return None


def _generation(progress: Progress) -> GenerationItem:
    pending = tuple(
        f"{each.count} wait{'s' if each.count == 1 else ''} for {each.reason}"
        + (f": {each.message}" if each.message else "")
        for each in progress.pending_reasons
    )
    stages = {stage: int(getattr(progress, stage)) for stage in STAGES}
    return GenerationItem(progress.generation, progress.desired, stages, pending)


# Pods and history.


def _pods(subject: Subject, seen: ClusterSeen, answers: WorkloadAnswers) -> Iterator[PodItem]:
    revisions = {uid_of(each): _revision_text(each) for each in answers.replica_sets}
    for pod in sorted(pods_of(subject, seen, answers), key=lambda pod: natural(pod.name)):
        yield PodItem(
            name=pod.name,
            revision=revisions.get(pod.owner_uid, ""),
            ready=pod.ready,
            status=pod.status,
            restarts=pod.restarts,
            node=pod.node or "-",
            age=_age(pod.created_ns, seen.now_ns),
        )


def pods_of(subject: Subject, seen: ClusterSeen, answers: WorkloadAnswers) -> list[PodSeen]:
    if is_of(subject.kind, "pods"):
        pod = next((each for key, each in seen.pods.items() if key == subject[1:]), None)
        return [pod] if pod else []
    owners = {uid_of(each) for each in (*answers.replica_sets, *([answers.obj] if answers.obj else []))}
    return [pod for pod in seen.pods.values() if pod.owner_uid and pod.owner_uid in owners]


def owned_sets(obj: Obj, replica_sets: Sequence[Obj]) -> tuple[Obj, ...]:
    """The ReplicaSets of a Deployment."""
    uid = uid_of(obj)
    return tuple(
        each
        for each in replica_sets
        if any(
            owner.get("uid") == uid and owner.get("controller")
            for owner in metadata(each).get("ownerReferences") or ()
        )
    )


def _history(answers: WorkloadAnswers, now_ns: int) -> Iterator[RevisionItem]:
    """The newest first, as one goes back from it."""
    numbered = [(_revision_text(each), each) for each in answers.replica_sets]
    revisions = sorted(
        ((int(text), each) for text, each in numbered if text.isdecimal()), key=lambda entry: -entry[0]
    )
    for at, (number, replica_set) in enumerate(revisions):
        containers = lookup(replica_set, "spec", "template", "spec", "containers") or ()
        notes = metadata(replica_set).get("annotations") or {}
        yield RevisionItem(
            revision=number,
            replica_set=str(metadata(replica_set).get("name") or ""),
            replicas=int(lookup(replica_set, "spec", "replicas") or 0),
            ready=int(lookup(replica_set, "status", "readyReplicas") or 0),
            age=_age(moment_ns(metadata(replica_set).get("creationTimestamp")) or 0, now_ns),
            images=tuple(str(container.get("image") or "") for container in containers),
            change_cause=str(notes.get(CHANGE_CAUSE) or ""),
            current=at == 0,
        )


def _revision_text(replica_set: Obj) -> str:
    return str((metadata(replica_set).get("annotations") or {}).get(REVISION) or "")


def _age(created_ns: int, now_ns: int) -> str:
    return human_duration(max(0, now_ns - created_ns) / SECOND_NS) if created_ns else "-"


# What to type.


def _commands(subject: Subject, history: Sequence[RevisionItem]) -> Iterator[str]:
    kind = subject.kind.partition(".")[0]
    place = f" -n {shlex.quote(subject.namespace)}" if subject.namespace else ""
    named = f"{kind}/{shlex.quote(subject.name)}{place}"
    yield f"fathom why {named} -o wide"
    yield f"fathom timeline {named} --since 10m"
    if is_of(kind, "deployments"):
        yield f"fathom status {named}"
        yield f"fathom rollout status {named}"
        if len(history) > 1:
            yield f"fathom rollout undo {named} --to-revision={history[1].revision}"
    if not is_of(kind, "nodes"):
        yield f"fathom describe {named}"
