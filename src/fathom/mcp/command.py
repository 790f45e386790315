"""`fathom mcp`: the questions as tools for assistants, by the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.places import Kubeconfig, Namespace
from fathom.cli.problem import Problem

MISSING = "`fathom mcp` needs the library of the Model Context Protocol: pip install 'fathom-control[mcp]'"


def mcp(
    *,
    http: Annotated[
        str,
        Parameter(
            help="[HOST:]PORT: serve over HTTP, not stdio. Default host: 127.0.0.1.", show_default=False
        ),
    ] = "",
    allow_proposals: Annotated[
        bool,
        Parameter(
            negative=(), help="Offer the tools that propose overrides and runbooks, for a person to approve."
        ),
    ] = False,
    tls_cert: Annotated[
        Path | None, Parameter(help="Certificate for HTTP (PEM); needed beyond this machine.")
    ] = None,
    tls_key: Annotated[Path | None, Parameter(help="Its private key (PEM).")] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Serve the questions as tools for assistants: why, status, timeline, coupling, decisions, what_if,
    previews, overrides and runbooks. Over stdio with your kubeconfig; over HTTP with the token that each
    request carries, and none of yours. It changes nothing: what an assistant may propose waits for the
    approval of another person.

    An assistant's program starts it and speaks with it over stdin and stdout. With --http, prints its
    address.

    fathom mcp  for the configuration of an assistant
    fathom mcp --allow-proposals -n shop
    fathom mcp --http 8811
    """
    if find_spec("mcp") is None:
        raise Problem(MISSING)
    from fathom.mcp.caller import callers_of  # noqa: PLC0415  # Only with the extra.

    callers = callers_of(kubeconfig, namespace)
    if not http:
        if tls_cert or tls_key:
            raise Problem("--tls-cert and --tls-key are for --http")
        from fathom.mcp.stdio import serve_stdio  # noqa: PLC0415

        serve_stdio(callers, allow_proposals=allow_proposals)
        return 0
    from fathom.mcp.http import listening_at, serve_http  # noqa: PLC0415

    at = listening_at(http, tls_cert, tls_key)
    serve_http(callers, at, kubeconfig, allow_proposals=allow_proposals)
    return 0
