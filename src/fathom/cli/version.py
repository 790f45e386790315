"""`fathom version`: what is installed here."""

from __future__ import annotations

import platform
import sys
from typing import Annotated

from fathom import __version__
from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.terminal import say


def version(
    *,
    output: Annotated[
        str,
        output_parameter(
            "wide", "json", "yaml", help="wide: also the platform. json, yaml: with kubectl's fields."
        ),
    ] = "",
) -> int:
    """Print the versions of fathom and Python, in one line. No server is asked.

    fathom version
    fathom version -o json
    kubectl fathom version
    """
    python = sys.version.split()[0]
    if output in DOCUMENTS:
        print_document({"clientVersion": client_version(python)}, output)
    else:
        platform_too = f", {client_version(python)['platform']}" if output == "wide" else ""
        say(f"fathom {__version__} (Python {python}{platform_too})")
    return 0


def client_version(python: str) -> dict[str, str]:
    """Named as `kubectl version -o json` names them, so that the same scripts read both."""
    major, minor, *_ = __version__.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{__version__}",
        "pythonVersion": python,
        "platform": f"{sys.platform}/{platform.machine()}",
    }
