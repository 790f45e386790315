"""`fathom override preview`: try an override in a fork of the live cluster before creating it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import Kubeconfig, Namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.status_line import waiting
from fathom.terminal import say

# The API server answers within a minute, or says that it cannot.
PREVIEW_S = 70.0


def preview(
    *,
    file: Annotated[
        Path,
        Parameter(
            name=("--filename", "-f"), allow_leading_hyphen=True, help="File with the override (- is stdin)."
        ),
    ],
    minutes: Annotated[int, Parameter(help="How long it is watched, in virtual time.")] = 10,
    seeds: Annotated[int, Parameter(help="In how many forks it is tried: they differ in chance.")] = 3,
    output: Annotated[str, output_parameter("json", "yaml", help="The whole answer.")] = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what an override would do: the production code runs in forks of the cluster, with and without it.
    Nothing is written. Exits with 1 if the API server would refuse the override.

    Prints what becomes of the workloads with it and without it, and a token with which `fathom override
    create` accepts it only while that still holds.

    fathom override preview -f avoid.yaml
    fathom override preview -f avoid.yaml --minutes 30 --seeds 5
    """
    from fathom.cli.ask.explanations import ApiServer  # noqa: PLC0415
    from fathom.cli.confirmation import place_of  # noqa: PLC0415  # See the package's docstring.
    from fathom.cli.steer.override_actions import namespace_for  # noqa: PLC0415
    from fathom.cli.steer.override_file import read_override  # noqa: PLC0415
    from fathom.cli.steer.preview_text import preview_lines, preview_of  # noqa: PLC0415

    obj, notes = read_override(file)
    if not obj["metadata"].get("name"):
        raise Problem(f"{file} has no name: add metadata.name")
    config = found_kubeconfig(kubeconfig)
    target = str(obj["spec"].get("target") or "")
    where = namespace_for(
        target,
        given=namespace,
        in_file=str(obj["metadata"].get("namespace") or ""),
        of_context=place_of(config).namespace,
    )
    obj["metadata"] = {**obj["metadata"], "namespace": where}
    server = ApiServer(config, answer_s=PREVIEW_S)
    spec = {"override": obj, "minutes": minutes, "seeds": seeds}
    with waiting(f"trying it in {seeds} forks of the cluster, some 15 s in all", quiet=bool(output)):
        answer = preview_of(server.ask("OverridePreview", "overridepreviews", spec, where))
    if output in DOCUMENTS:
        print_document(answer, output)
    else:
        if notes:
            say(f"Note: {file}: {'; '.join(notes)}", err=True)
        name = f"{where}/{obj['metadata']['name']}"
        say(*preview_lines(answer, name=name, target=target, file=str(file)))
    return ANSWER_IS_NO if answer.refused is not None else 0
