"""`fathom coupling`: who can change the inputs of a decision without calling it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.client.server_address import ServerAddress
    from fathom.explain.coupling.answer import Coupling, CouplingQuestion
    from fathom.explain.evidence import ObjectRef


def coupling(
    subject: Annotated[
        str,
        Parameter(
            name="CONTROLLER|KIND/NAME",
            help="A controller (autoscaling), an object (KIND/NAME) or a field (KIND/NAME:FIELD).",
        ),
    ] = "",
    /,
    *,
    namespace: Namespace = "",
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            "dot",
            help="wide: all names. json, yaml: one document. name: who can change an input without a call."
            " dot: a graph.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show which parts of the control plane can change the inputs of a decision without calling its
    controller, and who wrote a field. Without a subject: the names of the controllers. Exits with 1 if
    writers of a field take turns.

    Prints the inputs that change without a call, each with those who can write it; of a field, also who has
    written it, and when.

    fathom coupling autoscaling
    fathom coupling deployment/web:spec.replicas  who writes this field
    fathom coupling scheduler -o dot  a graph for Graphviz
    """
    if not subject:
        _show_controllers(output)
        return 0
    answer = ask(subject, chosen_namespace(namespace, kubeconfig), found_kubeconfig(kubeconfig))
    _show(answer, output)
    return ANSWER_IS_NO if answer.contested else 0


def ask(subject: str, namespace: str, kubeconfig: Path | ServerAddress | None) -> Coupling:
    import msgspec  # noqa: PLC0415

    from fathom.cli.ask.explanations import SYSTEM_NAMESPACE, ApiServer  # noqa: PLC0415
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


def _show_controllers(output: str) -> None:
    from fathom.cli.tables import say_table  # noqa: PLC0415
    from fathom.explain.coupling.actors import actors  # noqa: PLC0415

    rows = [(actor.name, actor.process) for actor in actors().values()]
    if output in DOCUMENTS:
        print_document([{"name": name, "process": process} for name, process in rows], output)
    elif output == "name":
        say(*(name for name, _ in rows))
    else:
        say_table([("CONTROLLER", "PROCESS"), *rows])


def _show(answer: Coupling, output: str) -> None:
    from fathom.explain.coupling.texts import coupling_lines, dot  # noqa: PLC0415

    if output in DOCUMENTS:
        print_document(answer, output)
    elif output == "name":
        say(*answer.silent)
    elif output == "dot":
        say(*dot(answer).splitlines())
    else:
        say(*coupling_lines(answer, wide=output == "wide"))
