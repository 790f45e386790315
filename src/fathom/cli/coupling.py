"""`fathom coupling`: who can change the inputs of a decision without calling it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from fathom.cli.kubeconfig import data_beside, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.why import Data, Kubeconfig
from fathom.terminal import say, say_json

if TYPE_CHECKING:
    from fathom.explain.coupling.answer import Coupling, CouplingQuestion
    from fathom.explain.evidence import Evidence, ObjectRef

Output = Literal["", "wide", "json", "dot"]
AUDIT = "audit"  # The directory of the audit log, in the API server's data directory.


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
    data: Data = None,
) -> int:
    """Show which parts of the control plane can change the inputs of a decision without calling its
    controller, and who wrote a field. Without a subject: the names of the controllers. Exits with 1 if
    writers of a field take turns."""
    if not subject:
        say(*_names())
        return 0
    kubeconfig = found_kubeconfig(kubeconfig)
    answer = ask(subject, namespace, kubeconfig, data or data_beside(kubeconfig))
    _show(answer, output)
    return ANSWER_IS_NO if answer.contested else 0


def ask(subject: str, namespace: str, kubeconfig: Path | None, data: Path) -> Coupling:
    """From the API server; or, where it does not answer such questions, from the files of its machine."""
    from fathom.explain.coupling.answer import UnknownActor, answer  # noqa: PLC0415

    about, question = parse(subject, namespace)
    if (answered := _ask_server(about, question, kubeconfig)) is not None:
        return answered
    try:
        return answer(asyncio.run(_evidence(about, question, kubeconfig, data)), question)
    except UnknownActor as error:
        raise Problem(str(error)) from error


def _ask_server(about: ObjectRef, question: CouplingQuestion, kubeconfig: Path | None) -> Coupling | None:
    import msgspec  # noqa: PLC0415

    from fathom.cli.explanations import SYSTEM_NAMESPACE, ApiServer  # noqa: PLC0415
    from fathom.explain.coupling.answer import Coupling  # noqa: PLC0415

    named = {"resource": about.resource, "name": about.name} if about.resource else {}
    spec = {"subject": named, "controller": question.controller, "field": question.field}
    wanted = {name: value for name, value in spec.items() if value}
    answered = ApiServer(kubeconfig).ask("Coupling", "couplings", wanted, about.namespace or SYSTEM_NAMESPACE)
    return None if answered is None else msgspec.convert(answered, Coupling)


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
    if not kind or not name:
        raise Problem(f"there is no kind {kind_name!r}: write KIND/NAME, or the name of a controller")
    where = namespace if is_namespaced(kind) else ""
    return ObjectRef(resource_of(kind), where, name), CouplingQuestion(field=field)


async def _evidence(
    about: ObjectRef, question: CouplingQuestion, kubeconfig: Path | None, data: Path
) -> Evidence:
    """The object as the API server has it, and its entries in the audit log beside the kubeconfig."""
    from fathom.client.kubeconfig import BadKubeconfig  # noqa: PLC0415
    from fathom.client.once import api_of  # noqa: PLC0415
    from fathom.client.servers import find_server  # noqa: PLC0415
    from fathom.explain.coupling.kind_names import api_resource  # noqa: PLC0415
    from fathom.explain.evidence import Evidence, Gap, HeldObjects, ObjectRef  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415
    from fathom.model.objects import uid_of  # noqa: PLC0415
    from fathom.record.audit_reading import files, read_entries  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415

    if question.controller:
        return Evidence(subject=about, objects=HeldObjects({}))
    clock = live().clock
    try:
        async with api_of(find_server(kubeconfig, clock=clock, environ=os.environ)) as api:
            obj = await api.get(api_resource(about.resource), about.namespace, about.name)
    except (BadKubeconfig, ApiError) as error:
        raise Problem(str(error)) from error
    if obj is None:
        raise Problem(f"there is no {about.resource} {about.namespace}/{about.name}".replace(" /", " "))
    logged = data / AUDIT
    entries = read_entries(logged, resource=about.resource, namespace=about.namespace, name=about.name)
    gaps = () if files(logged) else (Gap("audit log", f"there is none in {logged}"),)
    return Evidence(
        subject=ObjectRef(about.resource, about.namespace, about.name, uid_of(obj)),
        objects=HeldObjects({about.resource: [obj]}),
        audit=tuple(entries),
        gaps=gaps,
        now_ns=clock.now_ns(),
    )


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
