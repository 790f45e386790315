"""`fathom doctor`: whether this machine can run a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from fathom.cli.documents import table
from fathom.cli.kubeconfig import DEFAULT_DATA
from fathom.cli.problem import ANSWER_IS_NO
from fathom.terminal import say, say_json


def doctor(
    *,
    data: Annotated[Path, Parameter(help="Data directory of the cluster.")] = DEFAULT_DATA,
    host: Annotated[str, Parameter(help="Address of the API server.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port of the API server.")] = 6443,
    output: Annotated[
        Literal["", "json"], Parameter(name=("--output", "-o"), help="json: a list of findings.")
    ] = "",
) -> int:
    """Check whether this machine can run a cluster: ports, disk, cgroups, namespaces, clock, versions; with
    what to do about each trouble. Exits with 1 if `fathom up` would not work.

    fathom doctor
    fathom doctor --data /var/lib/fathom --port 7443 -o json
    """
    from fathom.doctor import Examined, examine  # noqa: PLC0415  # See the package's docstring.

    findings = list(examine(Examined(data.absolute(), host, port)))
    if output == "json":
        import msgspec  # noqa: PLC0415

        say_json(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    else:
        rows = [(finding.state, finding.check, finding.found) for finding in findings]
        for line, finding in zip(table(rows), findings, strict=True):
            say(line, *([f"  do: {finding.advice}"] if finding.advice else []))
    return ANSWER_IS_NO if any(finding.state == "failure" for finding in findings) else 0
