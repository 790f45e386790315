"""`fathom page`: a one-time link to the web page, and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from cyclopts import App, Parameter

from fathom.cli.browser import NO_BROWSER, opened
from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import Kubeconfig, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

    from fathom.cli.api_server import Answer

HELP = """Print a link to the web page of the cluster. It logs a browser in as you: once, within ten minutes.

The page may read what you may read, and change nothing unless --allow-changes. A browser does not know the
cluster's certificate authority and warns: docs/page.md says how to trust it.

fathom page
fathom page --allow-changes --open
fathom page sessions
"""

app = App(name="page", help=HELP)


@app.default
def page(
    *,
    allow_changes: Annotated[
        bool, Parameter(negative=(), help="The page may also change what you may change.")
    ] = False,
    open_browser: Annotated[
        bool, Parameter(name="--open", negative=(), help="Also open the link in a browser.")
    ] = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Print a link to the web page of the cluster. It logs a browser in as you: once, within ten minutes.

    The page may read what you may read, and change nothing unless --allow-changes. A browser does not know
    the cluster's certificate authority and warns: docs/page.md says how to trust it.

    fathom page
    fathom page --allow-changes --open
    """
    link = new_link(found_kubeconfig(kubeconfig), allow_changes=allow_changes)
    say(link)
    if open_browser and not opened(link):
        raise Problem(NO_BROWSER.format("link"))
    return 0


def new_link(kubeconfig: Path | None, *, allow_changes: bool = False) -> str:
    """Raises Problem."""
    from fathom.cli.api_server import ServerConnection  # noqa: PLC0415  # See the package's docstring.

    server = ServerConnection(kubeconfig)
    answer = _asked(server.request("POST", "/ui/links", {"allowChanges": allow_changes}))
    return f"{server.url.rstrip('/')}{answer['path']}"


@app.command
def sessions(
    *,
    end: Annotated[str, Parameter(help="Id of a session to end.")] = "",
    end_all: Annotated[
        bool, Parameter(name="--all", negative=(), help="End all sessions that are listed.")
    ] = False,
    output: Annotated[str, output_parameter("json", "yaml", help="json, yaml: one document.")] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List the sessions of the web page, or end them: yours, and those of everybody for an administrator.

    Prints a line for each: id, user, whether it may change anything, since when, when it was last used, and
    from where. A session that is ended is void at once, and its watches end.

    fathom page sessions
    fathom page sessions --end 3f2a90c1d4e5
    fathom page sessions --all
    """
    from fathom.cli.api_server import ServerConnection  # noqa: PLC0415

    server = ServerConnection(found_kubeconfig(kubeconfig))
    if end and end_all:
        raise Problem("give either --end ID or --all")
    if end or end_all:
        path = f"/ui/sessions/{quote(end, safe='')}" if end else "/ui/sessions"
        ended = _asked(server.request("DELETE", path))["ended"]
        say(*(f"session {each} ended" for each in ended) if ended else ("there is no session to end",))
        return 0
    listed = _asked(server.request("GET", "/ui/sessions"))
    if output in DOCUMENTS:
        print_document(listed, output)
    else:
        _print(listed["sessions"])
    return 0


def _print(listed: list[Answer]) -> None:
    from fathom.cli.tables import say_table  # noqa: PLC0415

    if not listed:
        say("no sessions")
        return
    rows = [
        (
            each["id"],
            each["user"],
            "changes" if each["allowChanges"] else "reads",
            each["began"],
            each["used"],
            each["remote"],
        )
        for each in listed
    ]
    say_table([("ID", "USER", "MAY", "SINCE", "LAST USED", "FROM"), *rows])


def _asked(answered: tuple[int, Answer]) -> Answer:
    """Raises Problem."""
    status, answer = answered
    if status == 405 or (status == 404 and not (answer.get("details") or {}).get("name")):
        raise Problem("this API server serves no page: it is not fathom, or older than 0.1")
    if status != 200:
        raise Problem(str(answer.get("message") or f"the API server answered with HTTP {status}"))
    return answer
