"""`fathom why` and `fathom decisions`: decisions about an object, their inputs and their outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from fathom.cli.data_directory import checked
from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import (
    Data,
    Kubeconfig,
    Namespace,
    chosen_namespace,
    found_data,
    found_kubeconfig,
    is_data_directory,
)
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.model.times import micro_timestamp
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.cli.api_server import Answer
    from fathom.cli.ask.explanations import ApiServer
    from fathom.model.decision import KeptDecision

At = Annotated[
    str,
    Parameter(help="A revision, a time, or how long ago (10m): answer about the objects as they were then."),
]
WAITING = frozenset({"unschedulable", "gated"})  # Verdicts whose only effect is a condition of the pod.


def why(
    *subjects: Annotated[
        str,
        Parameter(
            name="KIND/NAME",
            help="Objects, as KIND/NAME or NAME: pod/web-1, deploy/web. Default: whatever is stuck.",
        ),
    ],
    namespace: Namespace = "",
    all_namespaces: Annotated[
        bool,
        Parameter(
            name=("--all-namespaces", "-A"), negative=(), help="Without objects: look in the whole cluster."
        ),
    ] = False,
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: every node and decision. json, yaml: the document. name: what the answers are about.",
        ),
    ] = "",
    at: At = "",
    what_if: Annotated[
        tuple[str, ...],
        Parameter(help="KIND/NAME=PATCH: answer as if the object had this JSON merge patch.", negative=()),
    ] = (),
    kubeconfig: Kubeconfig = None,
) -> int:
    """Explain why objects are as they are, and the smallest change that helps. Exits with 1 if one of them is
    not as wanted.

    Prints for each object a sentence with the cause, the change and who may make it; below it the evidence:
    the command, other changes that would do, the reasons of the nodes, the decision and the revisions it
    used. Without objects: a sentence and a command for each object that is stuck, the worst first.

    fathom why  whatever is stuck
    fathom why deployment/web pod/web-1 -o wide  every node and every decision
    fathom why pod/web-1 --what-if 'node/node-2={"spec":{"unschedulable":false}}'
    fathom why deployment/web --at 10m  ten minutes ago
    """
    from fathom.cli.ask.explanations import ApiServer, NoSuchObject, Question  # noqa: PLC0415  # See the package's docstring.

    server = ApiServer(found_kubeconfig(kubeconfig))
    namespace = chosen_namespace(namespace, kubeconfig)
    if not subjects:
        where = Question(
            kind="namespace",
            name="" if all_namespaces else namespace,
            namespace=namespace,
            view="stuck",
            at=at,
        )
        return _print_stuck(server.explain(where), output)
    documents, missing = [], []
    for subject in subjects:
        kind, name = kind_and_name(subject, namespace, server)
        question = Question(kind=kind, name=name, namespace=namespace, at=at, what_if=what_if)
        try:
            documents.append(server.explain(question))
        except NoSuchObject as error:
            missing.append(str(error))
    if documents:
        if what_if and output in {"", "wide"}:
            say(*(f"If {each.partition('=')[0]} had {each.partition('=')[2]}:" for each in what_if))
        _print(documents, output, what_if=bool(what_if))
    if missing:
        raise Problem("; ".join(missing), exit_code=ANSWER_IS_NO)
    return 0 if all(document.get("asWanted") for document in documents) else ANSWER_IS_NO


def kind_and_name(subject: str, namespace: str, server: ApiServer) -> tuple[str, str]:
    """A bare name may be any kind's, where only one object has it."""
    kind, slash, name = subject.partition("/")
    if slash and kind and name:
        return kind, name
    if slash or not kind:
        raise Problem(f"an object reads KIND/NAME or NAME, not {subject!r}")
    kinds = server.kinds_of(subject, namespace)
    if len(kinds) > 1:
        listed = ", ".join(f"{kind}/{subject}" for kind in kinds)
        raise Problem(f"{subject} may be {listed}: name the kind")
    return (kinds[0] if kinds else "pod"), subject


def _print_stuck(document: Answer, output: str) -> int:
    """A line and a command each, worst first; with `wide`, the evidence too."""
    items = document.get("items") or []
    if output in DOCUMENTS:
        _print([document], output)
    elif output in {"wide", "name"}:
        _print(items, output)
    else:
        from fathom.cli.ask.explanation_text import stuck_lines  # noqa: PLC0415

        say(*stuck_lines(document))
    return ANSWER_IS_NO if items else 0


def _print(documents: list[Answer], output: str, *, what_if: bool = False) -> None:
    from fathom.cli.ask.explanation_text import explanation_lines  # noqa: PLC0415

    if output == "json":
        print_document(documents[0] if len(documents) == 1 else documents, output)
    elif output == "yaml":
        for number, document in enumerate(documents):
            say(*(["---"] if number else []))
            print_document(document, output)
    elif output == "name":
        say(*map(_name, documents))
    else:
        for number, document in enumerate(documents):
            first, *evidence = explanation_lines(document, wide=output == "wide", what_if=what_if)
            say(*([""] if number else []))
            say(first, style="bold")
            say(*evidence)


def _name(document: Answer) -> str:
    """'pods/web-1': what the answer is about, as `fathom why` takes it."""
    subject = document.get("subject") or {}
    return f"{subject.get('resource')}/{subject.get('name')}"


def decisions(
    subject: Annotated[
        str, Parameter(name="KIND/NAME", help="The object, as KIND/NAME (pods/web-1). Default: all objects.")
    ] = "",
    /,
    *,
    namespace: Annotated[
        str | None, Parameter(name=("--namespace", "-n"), help="Only objects of this namespace.")
    ] = None,
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: with times, causes and whole ids. json, yaml: a list of documents. name: ids.",
        ),
    ] = "",
    limit: Annotated[
        int,
        Parameter(
            help="Maximum number of decisions; the newest are shown.", validator=validators.Number(gte=1)
        ),
    ] = 100,
    kubeconfig: Kubeconfig = None,
    data: Data = None,
) -> int:
    """List recorded decisions and their outcomes, oldest first. Exits with 1 if there are none.

    Prints a line for each decision: its age, who decided about what, the verdict, and what came of it. They
    are read from the data directory; where there is none, the API server is asked.

    fathom decisions --limit 20
    fathom decisions pod/web-1 -o wide  with times, whole ids and causes
    """
    kind, _, name = subject.partition("/")
    place = found_data(data, kubeconfig)
    if data is not None or is_data_directory(place):
        kept, where = _of_data(place, kind, name, namespace)[-limit:], f"in {place}"
    else:
        from fathom.cli.ask.asked_decisions import Wanted, ask_decisions  # noqa: PLC0415

        kept, where = ask_decisions(Wanted(kind, name, namespace, limit), kubeconfig), "that you may see"
    if output in DOCUMENTS:
        print_document(whole(kept), output)
    elif output == "name":
        say(*(record.decision.id for record in kept))
    elif not kept:
        say(f"there are no recorded decisions {where}")
    elif output == "wide":
        say(*map(_line, kept))
    else:
        _say_rows(kept)
    return 0 if kept else ANSWER_IS_NO


# Reading.


def journals(data: Path) -> list[Path]:
    """The journals of a data directory: one for each process that decides."""
    from fathom.schedule.loop.live import JOURNALS  # noqa: PLC0415

    root = data / JOURNALS
    return [path for path in (root, *sorted(root.glob("*"))) if any(path.glob("*.seg"))]


def _of_data(data: Path, kind: str, name: str, namespace: str | None) -> list[KeptDecision]:
    from fathom.record.journal import WantedDecisions  # noqa: PLC0415

    records = _read_decisions(data, WantedDecisions(name=name, namespace=namespace))
    return [record for record in records if not kind or is_of(kind, record.decision.subject.resource)]


def _read_decisions(data: Path, wanted: Any) -> list[KeptDecision]:
    from fathom.record.journal import read_journal  # noqa: PLC0415

    records = [record for path in journals(checked(data)) for record in read_journal(path, wanted)]
    return sorted(records, key=lambda record: record.decision.time_ns)


SHORT = {
    "po": "pod", "no": "node", "ns": "namespace", "deploy": "deployment", "rs": "replicaset",
    "ep": "endpoint", "pdb": "poddisruptionbudget", "hpa": "horizontalpodautoscaler",
}  # fmt: skip


def is_of(kind: str, resource: str) -> bool:
    """Whether a kind as users write it (deploy, Deployment, deployments.apps) is a record's resource."""
    wanted = SHORT.get(kind.lower(), kind.lower())
    plural = resource.partition(".")[0]
    return wanted in {resource, plural, singular(plural)}


def singular(plural: str) -> str:
    for plural_ending, singular_ending in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if plural.endswith(plural_ending):
            return plural.removesuffix(plural_ending) + singular_ending
    return plural


def whole(value: Any) -> Any:
    """The record with all fields: a journal omits defaults, but readers of JSON rely on the names."""
    import msgspec  # noqa: PLC0415

    if isinstance(value, msgspec.Struct):
        return {name: whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list | tuple) else value


# Output.


COLUMNS = ("AGE", "ID", "CONTROLLER", "OBJECT", "VERDICT", "RESULT")


def _say_rows(kept: list[KeptDecision]) -> None:
    from fathom.cli.tables import say_table  # noqa: PLC0415
    from fathom.seams.outside import SystemClock  # noqa: PLC0415

    now_ns = SystemClock().now_ns()
    say_table([COLUMNS, *(_row(record, now_ns) for record in kept)])


def _row(kept: KeptDecision, now_ns: int) -> tuple[str, ...]:
    from fathom.cli.tables import age, short_id  # noqa: PLC0415

    decision = kept.decision
    subject = decision.subject
    place = f"{subject.namespace}/" if subject.namespace else ""
    node = f" {decision.node}" if decision.node else ""
    message = f": {decision.message}" if decision.message else ""
    results = ", ".join(dict.fromkeys(outcome.result for outcome in kept.outcomes))
    return (
        age(decision.time_ns, now_ns),
        short_id(decision.id),
        decision.controller,
        f"{subject.resource.partition('.')[0]} {place}{subject.name}",
        f"{decision.verdict}{node}",
        f"{results or without_outcome(decision.verdict)}{message}",
    )


def without_outcome(verdict: str) -> str:
    return "no write needed" if verdict in WAITING else "no outcome"


def _line(kept: KeptDecision) -> str:
    decision = kept.decision
    subject = decision.subject
    outcomes = "; ".join(
        _outcome(outcome.result, outcome.revision, outcome.message) for outcome in kept.outcomes
    )
    node = f" {decision.node}" if decision.node else ""
    message = f": {decision.message}" if decision.message else ""
    return (
        f"{micro_timestamp(decision.time_ns)} {decision.id} {decision.controller}"
        f" {subject.resource}/{subject.namespace}/{subject.name} {decision.verdict}{node}{message}"
        f" [{decision.cause.kind} {decision.cause.text}]"
        f" {outcomes or without_outcome(decision.verdict)}"
    )


def _outcome(result: str, revision: int, message: str) -> str:
    return f"{result}{f' at {revision}' if revision else ''}{f' ({message})' if message else ''}"
