"""`fathom docs`: the documentation as a site, on loopback, without any network."""

from __future__ import annotations

import http.server
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from fathom.cli.browser import NO_BROWSER, opened
from fathom.cli.problem import Problem
from fathom.terminal import say

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 6480
PACKAGE = Path(__file__).parents[2]
# In a wheel (see hatch_build.py), else where `script/docs` puts it in a clone.
PLACES = (PACKAGE / "site", PACKAGE.parent.parent / "build" / "site")
# Even a page that names another address makes no browser ask for it.
POLICY = "default-src 'self' 'unsafe-inline' data:"


def docs(
    *,
    port: Annotated[
        int, Parameter(validator=Number(gte=0, lte=65535), help="Port to listen on; 0: any free one.")
    ] = DEFAULT_PORT,
    open_browser: Annotated[
        bool, Parameter(name="--open", negative=(), help="Also open the site in a browser.")
    ] = False,
    site: Annotated[
        Path | None, Parameter(help="Directory of another built site. Default: the one of this installation.")
    ] = None,
) -> None:
    """Serve the documentation as a site on this machine until Ctrl-C, and print its address. It needs no
    network, and other machines cannot connect to it. With --open it says so where there is no browser.

    fathom docs
    fathom docs --port 0 --open
    """
    pages = partial(SitePages, directory=str(find_site((site,) if site else PLACES)))
    try:
        server = http.server.ThreadingHTTPServer((LOOPBACK, port), pages)
    except OSError as error:
        raise Problem(f"port {port} cannot be used ({error.strerror}): choose another with --port") from error
    with server:
        address = f"http://{LOOPBACK}:{server.server_port}/"
        say(f"documentation: {address} (Ctrl-C ends it)")
        if open_browser and not opened(address):
            say(NO_BROWSER.format("address"), err=True)
        server.serve_forever()


def find_site(places: tuple[Path, ...]) -> Path:
    """The first place that has a built site. Raises Problem."""
    for place in places:
        if (place / "index.html").is_file():
            return place
    raise Problem(f"there is no site in {places[-1]}: build it with script/docs, or read docs/README.md")


class SitePages(http.server.SimpleHTTPRequestHandler):
    """Files of the site, and nothing else: no list of a directory, no log of requests on the terminal."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-cache")  # The next version may be served at this address.
        super().end_headers()

    def list_directory(self, path: object) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  # Its name in the class above.
