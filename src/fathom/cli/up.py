"""`fathom up`: the whole control plane on this machine."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from fathom.cli.problem import Problem

DEFAULT_PORT = 6443  # Where kube-apiserver listens.


def up(
    *,
    data: Annotated[Path, Parameter(help="What the server keeps, and its kubeconfig.")] = Path(".fathom"),
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, Parameter(validator=Number(gte=0, lte=65535), help="The port; 0 takes any free one.")
    ] = DEFAULT_PORT,
    store: Annotated[str | None, Parameter(help="Another store than SQLite in DIR, as a URL.")] = None,
    admission: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Your own admission plugins, as module:name.")
    ] = (),
) -> None:
    """Start the API server, write DIR/kubeconfig and say `ready`. Ctrl-C stops it."""
    from fathom import serve  # noqa: PLC0415  # Only this command pays for the server's modules.
    from fathom.api.admission.plugins import UnknownPlugin  # noqa: PLC0415
    from fathom.store.protocol import StoreUnavailable  # noqa: PLC0415

    try:
        serve.run_api(data=data, host=host, port=port, store=store, plugins=list(admission))
    except (StoreUnavailable, UnknownPlugin) as error:  # Written for people, in one line each.
        raise Problem(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Problem(f"port {port} on {host} is taken; choose another with --port") from error
        raise
