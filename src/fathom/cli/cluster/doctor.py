"""`fathom doctor`: whether this machine can run a cluster."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import DEFAULT_DATA, NewData
from fathom.cli.problem import ANSWER_IS_NO
from fathom.cli.tables import laid_out, say_table
from fathom.terminal import Style, say, terminal_width

STYLES: dict[str, Style] = {"warning": "yellow", "failure": "red"}


def doctor(
    *,
    data: NewData = DEFAULT_DATA,
    host: Annotated[str, Parameter(help="Address of the API server.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port of the API server.")] = 6443,
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: a table with what to do. json, yaml: a list of findings. name: the checks that are"
            " not ok.",
        ),
    ] = "",
) -> int:
    """Check whether this machine can run a cluster: ports, disk, cgroups, namespaces, clock, versions; with
    what to do about each trouble. Exits with 1 if `fathom up` would not work.

    Prints a line for each check: good, warning or failure, and what was found.

    fathom doctor
    fathom doctor --data /var/lib/fathom --port 7443 -o json
    """
    from fathom.doctor import Examined, examine  # noqa: PLC0415  # See the package's docstring.

    findings = list(examine(Examined(data.absolute(), host, port)))
    if output in DOCUMENTS:
        print_document(findings, output)
    elif output == "name":
        say(*(finding.check for finding in findings if finding.state != "ok"))
    elif output == "wide":
        table = [(finding.state, finding.check, finding.found, finding.advice) for finding in findings]
        say_table([("STATE", "CHECK", "FOUND", "DO"), *table])
    else:
        width = terminal_width() if sys.stdout.isatty() else None
        rows = laid_out([(finding.state, finding.check, finding.found) for finding in findings], width)
        for lines, finding in zip(rows, findings, strict=True):
            say(*lines, style=STYLES.get(finding.state, ""))
            say(*([f"  do: {finding.advice}"] if finding.advice else []))
    return ANSWER_IS_NO if any(finding.state == "failure" for finding in findings) else 0
