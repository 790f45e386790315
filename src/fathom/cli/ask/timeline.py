"""`fathom timeline`: what happened to one object and around it, by whom, and what caused what."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say, say_json

if TYPE_CHECKING:
    from fathom.cli.ask.explanations import ApiServer
    from fathom.cli.ask.following import FollowedTimeline
    from fathom.explain.timeline.timeline import Timeline


def timeline(
    subject: Annotated[str, Parameter(name="KIND/NAME", help="The object.")],
    /,
    *,
    namespace: Namespace = "",
    since: Annotated[
        str, Parameter(help="Its beginning: how far back, such as 10m, or a time. Default: the first record.")
    ] = "",
    at: Annotated[
        str,
        Parameter(
            name=("--at", "--until"),
            help="Its end: a revision, a time, or how long ago (10m). Default: now.",
        ),
    ] = "",
    generation: Annotated[int, Parameter(help="Only this generation of the object.")] = 0,
    uid: Annotated[str, Parameter(help="Of several objects that had the name, the one with this UID.")] = "",
    watch: Annotated[
        bool, Parameter(name=("--watch", "-w"), negative=(), help="Go on with what happens; Ctrl-C ends it.")
    ] = False,
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: with each decision's wait, versions read, scores, results. json, yaml: a document."
            " name: the objects to which something happened.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what happened to an object: writes, decisions, Events, conditions, what caches had received, and
    which of them caused which. Exits with 1 if nothing is on record.

    Prints a line for each, the oldest first, with what caused it.

    fathom timeline deployment/web --since 10m
    fathom timeline pod/web-1 -w  goes on with what happens
    """
    from fathom.cli.ask.explanations import ApiServer  # noqa: PLC0415

    if watch and at:
        raise Problem("--watch goes on for ever: it cannot be used with --at")
    if watch and output == "name":
        raise Problem("-o name lists objects once: it cannot be used with --watch")
    asked = {"subject": subject_of(subject, uid), "since": since, "at": at, "generation": generation}
    question = {name: value for name, value in asked.items() if value}
    server = ApiServer(found_kubeconfig(kubeconfig))
    namespace = chosen_namespace(namespace, kubeconfig)
    shown = fetch_timeline(server, namespace, question)
    _print(shown, output)
    if watch:
        try:
            _follow(shown, server, namespace, question, output)
        except KeyboardInterrupt:
            return 0
    return 0 if shown.entries else ANSWER_IS_NO


def subject_of(text: str, uid: str) -> dict[str, str]:
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name:
        raise Problem(f"write the object as KIND/NAME, not {text!r}")
    return {"kind": kind, "name": name, **({"uid": uid} if uid else {})}


def fetch_timeline(server: ApiServer, namespace: str, question: dict[str, Any]) -> Timeline:
    """Raises Problem."""
    import msgspec  # noqa: PLC0415

    from fathom.explain.timeline.timeline import Timeline  # noqa: PLC0415

    return msgspec.convert(server.ask("Timeline", "timelines", question, namespace), Timeline)


# Showing.


def _print(shown: Timeline, output: str) -> None:
    if output in DOCUMENTS:
        print_document(shown, output)
    elif output == "name":
        objects = [entry.object for entry in shown.entries if entry.object is not None]
        say(*dict.fromkeys(f"{ref.resource}/{ref.name}" for ref in objects))
    else:
        print_text(shown, wide=output == "wide")


def print_text(shown: Timeline, *, wide: bool = False) -> None:
    say(*text_lines(shown, wide=wide))


def text_lines(shown: Timeline, *, wide: bool = False) -> list[str]:
    from fathom.cli.ask.explanation_text import moment_lines  # noqa: PLC0415
    from fathom.explain.timeline.lines import gap_lines  # noqa: PLC0415
    from fathom.explain.timeline.timeline import words_for  # noqa: PLC0415

    subject = shown.subject
    where = f" in {subject.namespace}" if subject.namespace else ""
    generation = f", generation {shown.generation}" if shown.generation else ""
    uid = f", UID {subject.uid}" if subject.uid else ""
    day = f", {shown.entries[0].time[:10]}, times in UTC" if shown.entries else ""
    return [
        f"{words_for(subject)}{where}{generation}{uid}{day}",
        *moment_lines({"asOf": shown.as_of or None}),
        *entry_lines(shown, start=0, wide=wide),
        *([] if shown.entries else ["nothing is on record"]),
        *gap_lines(shown),
    ]


def print_lines(shown: Timeline, *, start: int, wide: bool = False) -> None:
    say(*entry_lines(shown, start=start, wide=wide))


def entry_lines(shown: Timeline, *, start: int, wide: bool = False) -> list[str]:
    from fathom.explain.timeline.lines import QUIET_S, as_text, day, lines_of, time_of_day  # noqa: PLC0415

    lines = lines_of(shown)
    return list(as_text(lines, show_time=time_of_day, show_day=day, quiet_s=QUIET_S, start=start, wide=wide))


# Following.


def _follow(
    shown: Timeline, server: ApiServer, namespace: str, question: dict[str, Any], output: str
) -> None:
    """For ever: print what is new. While the API server does not answer, ask again; what happened meanwhile
    comes with its next answer. Raises Problem if the answer will not change: no such right any more."""
    from fathom.cli.api_server import NoAnswerNow  # noqa: PLC0415
    from fathom.cli.ask.following import POLL_S, RETRY_S_MAX, FollowedTimeline  # noqa: PLC0415
    from fathom.model.times import micro_timestamp  # noqa: PLC0415

    followed = FollowedTimeline(shown)
    pause_s = POLL_S
    while True:
        time.sleep(pause_s)
        news = {**question, "fold": False, "since": micro_timestamp(followed.since_ns)}
        try:
            answer = fetch_timeline(server, namespace, news)
        except NoAnswerNow as error:
            if pause_s == POLL_S:
                say(f"{error}; asking again", err=True)
            pause_s = min(2 * pause_s, RETRY_S_MAX)
            continue
        pause_s = POLL_S
        _print_news(followed, answer, output)


def _print_news(followed: FollowedTimeline, answer: Timeline, output: str) -> None:
    import msgspec  # noqa: PLC0415

    new, gaps = followed.add(answer)
    if output == "json" and new:
        say_json(msgspec.json.encode(followed.newest(new)).decode())
    elif output == "yaml" and new:
        say("---")
        print_document(followed.newest(new), output)
    elif output not in DOCUMENTS:
        print_lines(followed.timeline, start=len(followed.timeline.entries) - new, wide=output == "wide")
        say(*gaps)
