"""`fathom coupling`: who can change the inputs of a decision without calling it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from fathom.cli.kubeconfig import found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.why import Kubeconfig
from fathom.terminal import say, say_json

if TYPE_CHECKING:
    from fathom.explain.coupling.answer import Coupling, CouplingQuestion
    from fathom.explain.evidence import ObjectRef

Output = Literal["", "wide", "json", "dot"]


def coupling(
    subject: Annotated[
        str,
        Parameter(help="A controller (autoscaling), an object (KIND/NAME) or a field (KIND/NAME:FIELD)."),
    ] = "",
    /,
    *,
    namespace: Annotated[
        str, Parameter(name=("--namespace", "-n"), help="Namespace of the object.")
    ] = "default",
    output: Annotated[
        Output,
        Parameter(name=("--output", "-o"), help="wide: all names. json: one document. dot: a graph."),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show which parts of the control plane can change the inputs of a decision without calling its
    controller, and who wrote a field. Without a subject: the names of the controllers. Exits with 1 if
    writers of a field take turns."""
    if not subject:
        say(*_names())
        return 0
    answer = ask(subject, namespace, found_kubeconfig(kubeconfig))
    _show(answer, output)
    return ANSWER_IS_NO if answer.contested else 0


def ask(subject: str, namespace: str, kubeconfig: Path | None) -> Coupling:
    import msgspec  # noqa: PLC0415

    from fathom.cli.explanations import SYSTEM_NAMESPACE, ApiServer  # noqa: PLC0415
    from fathom.explain.coupling.answer import Coupling  # noqa: PLC0415

    about, question = parse(subject, namespace)
    named = {"resource": about.resource, "name": about.name} if about.resource else {}
    spec = {"subject": named, "controller": question.controller, "field": question.field}
    wanted = {name: value for name, value in spec.items() if value}
    answer = ApiServer(kubeconfig).ask("Coupling", "couplings", wanted, about.namespace or SYSTEM_NAMESPACE)
    return msgspec.convert(answer, Coupling)


def parse(subject: str, namespace: str) -> tuple[ObjectRef, CouplingQuestion]:
    """'autoscaling', 'deploy/web', 'deploy/web:spec.replicas', 'controllers/autoscaling'."""
    from fathom.explain.coupling.actors import actors, find_actor  # noqa: PLC0415
    from fathom.explain.coupling.answer import CouplingQuestion  # noqa: PLC0415
    from fathom.explain.coupling.kind_names import is_namespaced, kind_of, resource_of  # noqa: PLC0415
    from fathom.explain.evidence import ObjectRef  # noqa: PLC0415

    kind_name, slash, rest = subject.partition("/")
    name, _, field = rest.partition(":")
    kind = kind_of(kind_name)
    if not slash or (not kind and find_actor(subject, actors()) is not None):
        return ObjectRef("", "", ""), CouplingQuestion(controller=subject)
    if not kind_name or not name:
        raise Problem(f"write KIND/NAME, or the name of a controller, not {subject!r}")
    if not kind:  # Perhaps a kind of the cluster: the API server knows those.
        return ObjectRef(kind_name, namespace, name), CouplingQuestion(field=field)
    where = namespace if is_namespaced(kind) else ""
    return ObjectRef(resource_of(kind), where, name), CouplingQuestion(field=field)


def _names() -> list[str]:
    from fathom.explain.coupling.actors import actors  # noqa: PLC0415

    return [f"{actor.name:32} in {actor.process}" for actor in actors().values()]


def _show(answer: Coupling, output: Output) -> None:
    import msgspec  # noqa: PLC0415

    from fathom.explain.coupling.texts import coupling_lines, dot  # noqa: PLC0415

    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    elif output == "dot":
        say(*dot(answer).splitlines())
    else:
        say(*coupling_lines(answer, wide=output == "wide"))
