"""`fathom top`: the pages in a terminal, or printed once."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.ask.top.feed import Feed
from fathom.cli.ask.top.lines import Subject, plain
from fathom.cli.ask.top.now_lines import WIDE, now_lines
from fathom.cli.ask.top.now_view import now_view
from fathom.cli.ask.top.workload_lines import WHY, workload_lines
from fathom.cli.ask.top.workload_view import workload_view
from fathom.cli.object_reference import object_reference
from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say, terminal_width


def top(
    subject: Annotated[
        str, Parameter(name="KIND/NAME", help="Open this object. Default: the page of what is stuck.")
    ] = "",
    /,
    *,
    namespace: Namespace = "",
    all_namespaces: Annotated[
        bool, Parameter(name=("--all-namespaces", "-A"), negative=(), help="Show all namespaces.")
    ] = False,
    output: Annotated[
        str,
        output_parameter(
            "text",
            "json",
            "yaml",
            "name",
            help="Print the page once: as text, or as a document. name: what is stuck, or a workload's pods.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what is stuck, the nodes, the control plane, overrides and fights, live; Enter opens a workload.

    Draws two pages in the terminal, kept up to date by watches: what is stuck, worst first, each with the
    first line of `fathom why`; and one workload with its stages, pods, why, history and what to type. `?`
    lists the keys, `q` ends it. In a pipe, or with -o, it prints the page once.

    fathom top -A  the whole cluster
    fathom top deployment/web -n shop  the page of one workload
    fathom top -A -o json  the page once, as a document
    """
    place = found_kubeconfig(kubeconfig)
    chosen = chosen_namespace(namespace, kubeconfig)
    opened = subject_of(subject, chosen) if subject else None
    feed = Feed(place, "" if all_namespaces else chosen)
    feed.check()
    can_draw = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if output or not can_draw:
        return _print_once(feed, opened, output)
    from fathom.cli.ask.top.app import run_app  # noqa: PLC0415  # Only with a terminal: see the package's docstring.

    return run_app(feed, opened)


def subject_of(words: str, namespace: str) -> Subject:
    """Raises Problem."""
    from fathom.cli.ask.explanations import WITHOUT_NAMESPACE  # noqa: PLC0415

    named = object_reference(words, namespace)
    place = "" if named.kind in WITHOUT_NAMESPACE else namespace
    return Subject(named.kind, place, named.name)


def _print_once(feed: Feed, opened: Subject | None, output: str) -> int:
    """As `top -b -n1`. Raises Problem."""
    from fathom.cli.ask.explanations import ApiServer  # noqa: PLC0415
    from fathom.cli.ask.top.questions import answer_breakers, answer_stuck, ask_workload  # noqa: PLC0415

    server = ApiServer(feed.kubeconfig)
    feed.read_once()
    if opened is not None:
        workload = workload_view(opened, feed.snapshot(), ask_workload(server, opened))
        if WHY in workload.notes and not workload.why:
            raise Problem(workload.notes[WHY], exit_code=ANSWER_IS_NO)
        if output in DOCUMENTS:
            print_document(workload, output)
        elif output == "name":
            say(*(f"pods/{pod.name}" for pod in workload.pods))
        else:
            say(*plain(workload_lines(workload, _width())))
        return 0
    answer_stuck(feed, server)
    answer_breakers(feed, server)
    view = now_view(feed.snapshot())
    if output in DOCUMENTS:
        print_document(view, output)
    elif output == "name":
        say(*(f"{item.resource}/{item.name}" for item in view.stuck))
    else:
        say(*plain(now_lines(view, _width())))
    return 0


def _width() -> int:
    return terminal_width() if sys.stdout.isatty() else WIDE
