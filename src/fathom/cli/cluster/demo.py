"""`fathom demo`: an incident on a live cluster, told by the commands that a person would type."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from fathom.cli.output import Output, print_document
from fathom.cli.places import Kubeconfig, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.model.objects import Key
from fathom.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from fathom.cli.api_server import ServerConnection
    from fathom.demo.steps import Step

DEMO_DATA = Path(".fathom-demo")
STORY_MAP = Key("default", "fathom-demo")  # The ConfigMap that says which step the story is at.
REQUESTS = 40

HELP = """Tell an incident on a live cluster of this machine, command by command.

fathom demo risk-api
fathom demo risk-api --yes  unattended
"""

app = App(name="demo", help=HELP)


@app.command(name="risk-api")
def risk_api(
    *,
    yes: Annotated[
        bool,
        Parameter(name=("--yes", "-y"), negative=(), help="Do not wait for a key at each step."),
    ] = False,
    data: Annotated[Path, Parameter(help="Directory for the demonstration's own cluster.")] = DEMO_DATA,
    port: Annotated[int, Parameter(help="Port of its API server; 0: any free one.")] = 0,
    page: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Open the web page too, and take it at each step to what shows the same.",
        ),
    ] = False,
) -> int:
    """The incident of risk-api, in about three minutes: a rollout, a replica that waits behind a green
    surface, why, a fix by runbook that ends by itself, the proof, a replay. The cluster is left for you.

    Prints each command before it runs, and its output.

    fathom demo risk-api
    fathom demo risk-api --yes --data ./demo
    fathom demo risk-api --page  with the web page beside it
    """
    from fathom.demo.player import DemoFailed, Stage, play, start_cluster  # noqa: PLC0415  # See the package's docstring.
    from fathom.demo.risk_api import STORY  # noqa: PLC0415
    from fathom.steer.conditions import NoConditions, need_library  # noqa: PLC0415

    try:
        need_library()  # Now, not after a minute, when the story comes to its runbook.
    except NoConditions as error:
        raise Problem(str(error)) from error
    if not yes and not sys.stdin.isatty():
        raise Problem("there is no terminal to wait at: give --yes to run it unattended")
    stage = Stage(data.absolute())
    if stage.data.exists() and any(stage.data.iterdir()):
        raise Problem(
            f"{stage.data} is not empty: end the last demonstration with `fathom down --data {data}`, then"
            " delete the directory, or choose another with --data"
        )
    stage.files.mkdir(mode=0o700, parents=True)
    try:
        say(f"# A cluster of three nodes starts in {stage.data}; some 10 seconds.")
        start_cluster(stage, port)
        say(f"$ export KUBECONFIG={stage.kubeconfig}")
        show = _open_page(stage.kubeconfig) if page else _show_nothing
        play(STORY, stage, say, _go_on if yes else _wait_for_key, show=show)
    except DemoFailed as error:
        ended = f"the cluster runs on for a look; `fathom down --data {stage.data}` ends it"
        again = "a busy machine may be the cause: then try again"
        raise Problem(f"{error}; {ended}; {again}", exit_code=ANSWER_IS_NO) from error
    except KeyboardInterrupt:
        say("", f"# The cluster runs on; `fathom down --data {stage.data}` ends it.")
        raise
    say(
        "",
        "# That was it. The cluster runs on:",
        f"export KUBECONFIG={stage.kubeconfig}   # then any of the commands above, or kubectl",
        f"fathom down --data {stage.data}   # ends it and its pods",
        f"# The files that the commands name are in {stage.files}.",
    )
    return 0


def _open_page(kubeconfig: Path) -> Callable[[Step], None]:
    """Print the link to the page, and open it in a browser if there is one. What is returned takes the page
    to a step, and names it."""
    from fathom.cli.api_server import ServerConnection  # noqa: PLC0415
    from fathom.cli.ask.page import new_link  # noqa: PLC0415
    from fathom.cli.browser import opened  # noqa: PLC0415

    link = f"{new_link(kubeconfig)}&follow={STORY_MAP.namespace}/{STORY_MAP.name}"
    say(f"# The page: {link}  (once, within ten minutes; another: fathom page)")
    opened(link)
    address, server = link.partition("#")[0], ServerConnection(kubeconfig)

    def show(step: Step) -> None:
        say(f"# On the page: {address}{step.page}")
        _tell_page(server, {"page": step.page, "text": step.text})

    return show


def _tell_page(server: ServerConnection, data: dict[str, str]) -> None:
    """The page follows this ConfigMap (`web/static/follow.js`)."""
    from fathom.model.media_types import MERGE_PATCH  # noqa: PLC0415

    maps, name = f"/api/v1/namespaces/{STORY_MAP.namespace}/configmaps", STORY_MAP.name
    status, _ = server.request("PATCH", f"{maps}/{name}", {"data": data}, media=MERGE_PATCH)
    if status == 404:
        server.request("POST", maps, {"metadata": {"name": name}, "data": data})


def _show_nothing(step: Step) -> None:
    pass


def _go_on() -> None:
    pass


def _wait_for_key() -> None:
    sys.stderr.write("  (Enter runs it) ")
    sys.stderr.flush()
    if not sys.stdin.readline():
        raise KeyboardInterrupt


@app.command
def requests(
    service: Annotated[str, Parameter(help="Name of a Service in the namespace default.")],
    /,
    *,
    count: Annotated[int, Parameter(help="How many.")] = REQUESTS,
    output: Output = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Send requests to a Service, and print how many were answered: what a dashboard of the surface shows.
    Exits with 1 if one was not.

    fathom demo requests risk-api
    fathom demo requests risk-api --count 100
    """
    from fathom.cli.api_server import ServerConnection  # noqa: PLC0415
    from fathom.cli.objects.answers import done  # noqa: PLC0415
    from fathom.demo.player import answered  # noqa: PLC0415

    path = f"/api/v1/namespaces/default/services/{service}"
    spec = done(*ServerConnection(found_kubeconfig(kubeconfig)).request("GET", path), path)["spec"]
    good = answered(f"{spec['clusterIP']}:{spec['ports'][0]['port']}", count)
    if output:
        print_document({"service": service, "requests": count, "answered": good}, output)
    else:
        say(f"{good} of {count} requests were answered with 200 OK")
    return 0 if good == count else ANSWER_IS_NO
