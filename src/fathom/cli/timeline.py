"""`fathom timeline`: what happened to one object and around it, by whom, and what caused what."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from fathom.cli.kubeconfig import found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.why import Kubeconfig
from fathom.model.times import SECOND_NS, duration_ns, timestamp
from fathom.terminal import say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from fathom.client.api import Api
    from fathom.explain.timeline.timeline import Timeline, TimelineSpec
    from fathom.model.objects import Obj

POLL_S = 1.0
# Records of several processes arrive in no exact order: each poll looks back this far.
OVERLAP_NS = 10 * SECOND_NS


def timeline(
    subject: Annotated[str, Parameter(help="The object, as KIND/NAME.")],
    /,
    *,
    namespace: Annotated[
        str, Parameter(name=("--namespace", "-n"), help="Namespace of the object.")
    ] = "default",
    since: Annotated[str, Parameter(help="How far back, such as 10m. Default: all that is on record.")] = "",
    at: Annotated[
        str, Parameter(help="Its end: a revision, a time, or how long ago (10m). Default: now.")
    ] = "",
    watch: Annotated[
        bool, Parameter(name=("--watch", "-w"), negative=(), help="Go on with what happens; Ctrl-C ends it.")
    ] = False,
    output: Annotated[
        Literal["", "json"], Parameter(name=("--output", "-o"), help="json: print one JSON document.")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what happened to an object: writes, decisions, Events, conditions, what caches had received, and
    which of them caused which. Exits with 1 if nothing is on record."""
    before_ns = duration_ns(since) if since else 0
    if before_ns is None:
        raise Problem(f"--since takes a duration such as 10m, not {since!r}")
    if watch and at:
        raise Problem("--watch goes on with what happens now, and --at ends before: use one of them")
    question = _question(subject, namespace, before_ns)._replace(at=at)
    try:
        return asyncio.run(
            _show(question, found_kubeconfig(kubeconfig), watch=watch, as_json=output == "json")
        )
    except KeyboardInterrupt:
        if watch:
            return 0
        raise


class TimelineQuestion(NamedTuple):
    """What is asked, and where."""

    kind: str  # As users write it: deploy, Deployment, deployments.apps.
    name: str
    namespace: str
    before_ns: int  # How far back; 0: all that is on record.
    at: str = ""  # Its end; '' is now.


def _question(text: str, namespace: str, before_ns: int) -> TimelineQuestion:
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name:
        raise Problem(f"write the object as KIND/NAME, not {text!r}")
    return TimelineQuestion(kind, name, namespace, before_ns)


# Asking.

Fetch = Callable[["TimelineSpec"], Awaitable["Timeline"]]


async def _show(question: TimelineQuestion, kubeconfig: Path | None, *, watch: bool, as_json: bool) -> int:
    from fathom.client.kubeconfig import BadKubeconfig  # noqa: PLC0415
    from fathom.client.once import api_of  # noqa: PLC0415
    from fathom.client.servers import find_server  # noqa: PLC0415
    from fathom.explain.timeline.timeline import TimelineSpec  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415

    clock = live().clock
    # With another end than now, the server counts back from there.
    since_ns = clock.now_ns() - question.before_ns if question.before_ns and not question.at else 0

    async def fetch(spec: TimelineSpec) -> Timeline:
        return await fetch_timeline(api, question, spec)

    try:
        async with api_of(find_server(kubeconfig, clock=clock, environ=os.environ)) as api:
            shown = await fetch(TimelineSpec(since_ns=since_ns))
            (print_json if as_json else print_text)(shown)
            if watch:
                await _follow(shown, fetch, as_json=as_json)
    except (BadKubeconfig, ApiError) as error:
        raise Problem(str(error)) from error
    return 0 if shown.entries else ANSWER_IS_NO


async def fetch_timeline(api: Api, question: TimelineQuestion, spec: TimelineSpec) -> Timeline:
    """Raises ApiError, Problem."""
    import msgspec  # noqa: PLC0415

    from fathom.cli.explanations import ANSWERS_NO_QUESTIONS, answers_no_questions  # noqa: PLC0415
    from fathom.client.api import Resource  # noqa: PLC0415
    from fathom.client.outcomes import Committed, Rejected  # noqa: PLC0415
    from fathom.explain.timeline.timeline import Timeline  # noqa: PLC0415
    from fathom.model.errors import ApiError, bad_request  # noqa: PLC0415

    timelines = Resource("fathom.dev", "v1alpha1", "timelines")
    outcome = await api.create(timelines, question.namespace, _document(question, spec))
    if isinstance(outcome, Committed):
        return msgspec.convert(outcome.obj.get("status") or {}, Timeline)
    if isinstance(outcome, Rejected) and answers_no_questions(outcome.code, outcome.reason, outcome.message):
        raise Problem(ANSWERS_NO_QUESTIONS)
    if isinstance(outcome, Rejected):
        raise ApiError(outcome.code, outcome.reason, outcome.message)
    raise bad_request(f"the API server did not answer the question: {outcome}")


def _document(question: TimelineQuestion, spec: TimelineSpec) -> Obj:
    """The question as an object of the API."""
    asked: Obj = {"subject": {"kind": question.kind, "name": question.name}}
    if question.at:
        asked["at"] = question.at
        if question.before_ns:
            asked["since"] = f"{question.before_ns}ns"
    if spec.since_ns:
        asked["since"] = timestamp(spec.since_ns)
    if not spec.fold:
        asked["fold"] = False
    return {"apiVersion": "fathom.dev/v1alpha1", "kind": "Timeline", "spec": asked}


# Showing.


def print_text(shown: Timeline) -> None:
    from fathom.cli.explanation_text import moment_lines  # noqa: PLC0415
    from fathom.explain.timeline.lines import gap_lines  # noqa: PLC0415
    from fathom.explain.timeline.timeline import words_for  # noqa: PLC0415

    subject = shown.subject
    where = f" in {subject.namespace}" if subject.namespace else ""
    generation = f", generation {shown.generation}" if shown.generation else ""
    uid = f", UID {subject.uid}" if subject.uid else ""
    day = f", {shown.entries[0].time[:10]}, times in UTC" if shown.entries else ""
    say(f"{words_for(subject)}{where}{generation}{uid}{day}")
    say(*moment_lines({"asOf": shown.as_of or None}))
    print_lines(shown, start=0)
    if not shown.entries:
        say("nothing is on record")
    say(*gap_lines(shown))


def print_lines(shown: Timeline, *, start: int) -> None:
    from fathom.explain.timeline.lines import QUIET_S, as_text, lines_of, time_of_day  # noqa: PLC0415

    say(*as_text(lines_of(shown), show_time=time_of_day, quiet_s=QUIET_S, start=start))


def print_json(shown: Timeline) -> None:
    import msgspec  # noqa: PLC0415

    say_json(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())


async def _follow(shown: Timeline, fetch: Fetch, *, as_json: bool) -> None:
    """For ever: print what is new. Numbers go on, so that causes refer to lines above."""
    import msgspec  # noqa: PLC0415

    from fathom.explain.timeline.timeline import TimelineSpec  # noqa: PLC0415

    while True:
        await asyncio.sleep(POLL_S)
        last_ns = max((entry.time_ns for entry in shown.entries), default=0)
        # Folded entries were shown as one; what comes now is shown one by one.
        news = await fetch(TimelineSpec(since_ns=max(0, last_ns - OVERLAP_NS), fold=False))
        shown, new = with_news(shown, news)
        if new and as_json:
            for entry in shown.entries[-new:]:
                say_json(msgspec.json.encode(entry).decode())
        elif new:
            print_lines(shown, start=len(shown.entries) - new)


def with_news(shown: Timeline, news: Timeline) -> tuple[Timeline, int]:
    """The timeline with the entries that it lacks, at its end, and how many these are. What lies within an
    entry that stands for several is not new."""
    import msgspec  # noqa: PLC0415

    known = {entry.id for entry in shown.entries}
    until = max((entry.until or entry.time for entry in shown.entries), default="")
    new = tuple(entry for entry in news.entries if entry.id not in known and entry.time > until)
    edges = tuple(dict.fromkeys((*shown.edges, *news.edges)))
    return msgspec.structs.replace(shown, entries=(*shown.entries, *new), edges=edges), len(new)
