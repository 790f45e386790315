"""`fathom attach` and `fathom detach`: beside a Kubernetes that is not fathom's."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from fathom.cli.cluster.serve import Kubeconfig, Port
from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import DEFAULT_DATA, NewData
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.attach.ask_listener import AskListener
    from fathom.attach.ask_objects import AskAddress
    from fathom.attach.findings import AttachFinding
    from fathom.attach.survey import Survey
    from fathom.client.api import Api
    from fathom.client.server_address import ServerAddress

T = TypeVar("T")

DEFAULT_PORT = 6444  # Beside a `fathom up` on the same machine.
NAME = "fathom"
DEFAULT_SCHEDULER = "default-scheduler"
Yes = Annotated[
    bool, Parameter(name=("--yes", "-y"), negative=(), help="Do not ask before objects are written.")
]


def attach(
    *,
    kubeconfig: Kubeconfig = None,
    name: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Schedule pods with this schedulerName; may be repeated."),
    ] = (NAME,),
    observe_only: Annotated[
        bool,
        Parameter(negative=(), help="Schedule nothing and write nothing there: read, and answer questions."),
    ] = False,
    print_: Annotated[
        bool,
        Parameter(name="--print", negative=(), help="Print the objects that would be installed, and end."),
    ] = False,
    check: Annotated[
        bool,
        Parameter(negative=(), help="Print what the server has, and end. Exits with 1 if it does not do."),
    ] = False,
    ask_api: Annotated[
        str,
        Parameter(
            help="ADDRESS:PORT where the cluster's API server reaches this process: serve decisions and"
            " explanations to kubectl there. :PORT in a pod."
        ),
    ] = "",
    yes: Yes = False,
    data: NewData = DEFAULT_DATA,
    port: Port = DEFAULT_PORT,
    output: Annotated[
        str, output_parameter("json", "yaml", help="The check, or the objects of --print, as a document.")
    ] = "",
) -> int:
    """Attach to an existing Kubernetes: answer questions about it and, unless --observe-only, schedule the
    pods that name fathom.

    Checks what the server has and prints a table: version, kinds, rights, and what each lack costs. Then it
    runs until Ctrl-C: it copies the cluster's objects into --data and serves them, read-only, on this
    machine; the kubeconfig of the copy is DATA/kubeconfig. To schedule it first installs a namespace, roles
    and the kind SchedulerOverride with its admission policy, after asking. With --ask-api it also installs an
    APIService, so that kubectl there reads decisions, explanations, timelines and couplings, each user what
    they may read.

    fathom attach --kubeconfig prod.yaml --observe-only  reads, writes nothing
    fathom attach --kubeconfig prod.yaml --check -o json  what the server has
    fathom attach --print > fathom.yaml  namespace, account, roles, kind and policy, for kubectl apply
    fathom attach --kubeconfig prod.yaml --name fathom --yes  schedules pods whose schedulerName is fathom
    fathom attach --kubeconfig prod.yaml --observe-only --ask-api 192.0.2.10:6445  kubectl there may ask too
    """
    address = _ask_address(ask_api)
    if print_:
        return _print_objects(observe_only=observe_only, ask_api=address, output=output)
    survey = _asked(
        kubeconfig, lambda api, url: _surveyed(api, url, observe_only=observe_only, ask_api=address)
    )
    from fathom.attach.findings import findings_of, is_possible  # noqa: PLC0415  # See the package's docstring.

    findings = findings_of(survey, observe_only=observe_only, ask_api=address)
    _say_findings(findings, output)
    if not is_possible(findings):
        if not output:
            raise Problem("this server does not do: see the lines marked `needed`", exit_code=ANSWER_IS_NO)
        return ANSWER_IS_NO
    if check or output:
        return 0
    refuse_fight(survey, () if observe_only else name)
    listener = _listening(address)  # First: nothing is installed that would lead to nobody.
    lacks = not observe_only and lacks_installed(survey)
    if lacks or (address is not None and not survey.ask_api):
        _install(kubeconfig, survey, observe_only=observe_only, ask_api=address, yes=yes)
        survey = _asked(
            kubeconfig, lambda api, url: _surveyed(api, url, observe_only=observe_only, ask_api=address)
        )
    names = () if observe_only else name
    _run(kubeconfig, survey, data=data.absolute(), port=port, names=names, ask_listener=listener)
    return 0


def detach(*, kubeconfig: Kubeconfig = None, yes: Yes = False) -> int:
    """Remove from a Kubernetes all that `fathom attach` left there: namespace, roles, kind, APIService,
    leases, annotations.

    Prints a line for each object. Overrides go with their kind; they are named before it asks. Stop `fathom
    attach` first. The copy in its --data directory stays: delete the directory if you do not need its
    records.

    fathom detach --kubeconfig prod.yaml
    fathom detach --yes
    """
    from fathom.attach.installing import NotInstalled, objects_of_our_kinds, remove  # noqa: PLC0415
    from fathom.cli.confirmation import confirm, place_of  # noqa: PLC0415

    written = _asked(kubeconfig, lambda api, url: objects_of_our_kinds(api))
    say(*(f"goes with its kind: {title}" for title in written))
    theirs = f", and {len(written)} objects that people wrote" if written else ""
    confirm(f"Remove all that fathom left in {place_of(kubeconfig)}{theirs}?", yes=yes)
    try:
        lines = _asked(kubeconfig, lambda api, url: remove(api))
    except NotInstalled as error:
        raise Problem(str(error)) from error
    say(*lines or ["nothing of fathom's is there"])
    return 0


def lacks_installed(survey: Survey) -> bool:
    """Whether something is to be installed that the server takes."""
    lacks_policy = survey.has_policies and survey.vouching.since_ns is None
    return not (survey.has_namespace and survey.has_overrides) or lacks_policy


def refuse_fight(survey: Survey, names: tuple[str, ...]) -> None:
    """Raises Problem where kube-scheduler takes the same pods."""
    if survey.leader and DEFAULT_SCHEDULER in names:
        raise Problem(
            f"kube-scheduler ({survey.leader}) takes the pods of {DEFAULT_SCHEDULER}: stop it first, or"
            " choose another --name"
        )


# What the server has.


async def _surveyed(api: Api, url: str, *, observe_only: bool, ask_api: AskAddress | None) -> Survey:
    from fathom.attach.ask_objects import serving_questions  # noqa: PLC0415
    from fathom.attach.rights import observing, scheduling  # noqa: PLC0415
    from fathom.attach.survey import survey  # noqa: PLC0415

    rights = observing() if observe_only else [*observing(), *scheduling()]
    return await survey(api, url, [*rights, *([] if ask_api is None else serving_questions())])


def _ask_address(text: str) -> AskAddress | None:
    """Raises Problem."""
    from fathom.attach.ask_objects import BadAskAddress, parse_ask_address  # noqa: PLC0415

    try:
        return parse_ask_address(text) if text else None
    except BadAskAddress as error:
        raise Problem(str(error)) from None


def _listening(address: AskAddress | None) -> AskListener | None:
    """Raises Problem."""
    from fathom.attach.ask_listener import AskListener, listen  # noqa: PLC0415

    if address is None:
        return None
    try:
        return AskListener(address, listen(address))
    except OSError as error:
        raise Problem(
            f"--ask-api: cannot listen on {address.host}:{address.port}: {error.strerror}"
        ) from error


def _say_findings(findings: list[AttachFinding], output: str) -> None:
    from fathom.cli.tables import say_table  # noqa: PLC0415

    if output in DOCUMENTS:
        print_document(findings, output)
    else:
        rows = [(finding.check, finding.state, finding.found, finding.cost) for finding in findings]
        say_table([("CHECK", "HAS", "FOUND", "WHAT THE LACK COSTS"), *rows])


def _asked(kubeconfig: Path | None, ask: Callable[[Api, str], Coroutine[Any, Any, T]]) -> T:
    """Raises Problem where the server does not answer, or refuses."""
    from fathom.cli.cluster.serve import server_at  # noqa: PLC0415
    from fathom.client.once import api_of  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415

    async def run() -> T:
        server: ServerAddress = server_at(kubeconfig)
        async with api_of(server) as api:
            return await ask(api, server.url)

    try:
        return asyncio.run(run())
    except ApiError as error:
        raise Problem(error.message) from error


# What is installed.


def _print_objects(*, observe_only: bool, ask_api: AskAddress | None, output: str) -> int:
    from fathom.attach.installed import objects_to_install  # noqa: PLC0415
    from fathom.cli.documents import as_yaml  # noqa: PLC0415
    from fathom.terminal import say_document  # noqa: PLC0415

    objects = objects_to_install(observe_only=observe_only, ask_api=ask_api)
    if output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "items": objects}, output)
    else:
        say_document("---\n".join(as_yaml(obj, sort_keys=False) for obj in objects))
    return 0


def _install(
    kubeconfig: Path | None, survey: Survey, *, observe_only: bool, ask_api: AskAddress | None, yes: bool
) -> None:
    """Where the namespace is installed, so are account and roles: an account of theirs may not make more."""
    from fathom.attach.ask_objects import is_for_questions  # noqa: PLC0415
    from fathom.attach.installed import objects_to_install  # noqa: PLC0415
    from fathom.attach.installing import NotInstalled, install  # noqa: PLC0415
    from fathom.attach.steering import is_for_steering  # noqa: PLC0415
    from fathom.cli.confirmation import confirm  # noqa: PLC0415

    objects = [
        obj
        for obj in objects_to_install(observe_only=observe_only, ask_api=ask_api)
        if not survey.has_namespace or is_for_steering(obj) or (is_for_questions(obj) and not survey.ask_api)
    ]
    for obj in objects:
        place = obj["metadata"].get("namespace")
        say(f"to install: {obj['kind']} {place + '/' if place else ''}{obj['metadata']['name']}")
    confirm(f"Install these {len(objects)} objects in {survey.url}? (--print shows them)", yes=yes)
    try:
        say(*_asked(kubeconfig, lambda api, _: install(api, objects)))
    except NotInstalled as error:
        raise Problem(str(error)) from error


# What runs.


def _run(
    kubeconfig: Path | None,
    survey: Survey,
    *,
    data: Path,
    port: int,
    names: tuple[str, ...],
    ask_listener: AskListener | None,
) -> None:
    from fathom.api.auth.certificates import PkiError  # noqa: PLC0415
    from fathom.attach.copying import ForeignCluster, scheduler_part  # noqa: PLC0415
    from fathom.attach.findings import readable  # noqa: PLC0415
    from fathom.cli.cluster.scheduler import who_is  # noqa: PLC0415
    from fathom.cli.cluster.serve import server_at  # noqa: PLC0415
    from fathom.data_format import UnknownFormat  # noqa: PLC0415
    from fathom.private_files import NotOurs, make_directory  # noqa: PLC0415
    from fathom.record.journal_reader import JournalReader  # noqa: PLC0415
    from fathom.record.journals import journal_directory  # noqa: PLC0415
    from fathom.serve import run_api  # noqa: PLC0415
    from fathom.store.protocol import StoreUnavailable  # noqa: PLC0415

    try:
        os.umask(0o077)  # No other user may read what we copy.
        make_directory(data)
        copied_before = _mark(data, survey.url)
        lock = _locked(data)
        process = who_is(names, (0, 1)) if names else ""
        command = _scheduler_command(kubeconfig, data, names)
        copying = ForeignCluster(
            lambda: server_at(kubeconfig),
            survey.url,
            readable(survey),
            copied_before=copied_before,
            journals={process: JournalReader(journal_directory(data, process))} if names else {},
            scheduler=scheduler_part(command, data / "logs", lock) if names else None,
            ask_listener=ask_listener,
        )
        say(f"copying the objects of {survey.url} to {data}")
        run_api(data=data, host="127.0.0.1", port=port, store=None, copying=copying)
    except (NotOurs, PkiError, StoreUnavailable, UnknownFormat) as error:
        raise Problem(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Problem(f"port {port} is in use; choose another, for example --port {port + 1}") from error
        raise


def _mark(data: Path, url: str) -> bool:
    """Note what the directory copies. Whether it did so before; raises Problem if it holds something else."""
    from fathom.cli.places import is_data_directory  # noqa: PLC0415
    from fathom.private_files import write_private  # noqa: PLC0415
    from fathom.serve import COPY_OF  # noqa: PLC0415

    file = data / COPY_OF
    if file.exists():
        known = file.read_text(errors="replace").strip()
        if known != url:
            raise Problem(f"{data} is a copy of {known}, not of {url}: choose another directory with --data")
        return True
    if is_data_directory(data):
        raise Problem(f"{data} is the data directory of a cluster: choose another one with --data")
    write_private(file, f"{url}\n".encode())
    return False


def _locked(data: Path) -> int:
    """As `fathom up` does, so that `fathom down` ends us too. Raises Problem."""
    lock = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Problem(
            f"another fathom uses {data}: stop it, or choose another directory with --data"
        ) from None
    return lock


def _scheduler_command(kubeconfig: Path | None, data: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    from fathom.supervise import python  # noqa: PLC0415

    words = ["serve", "scheduler", "--data", str(data), "--metrics-address", ""]
    words += [] if kubeconfig is None else ["--kubeconfig", str(kubeconfig.absolute())]
    return python(*words, *(word for each in names for word in ("--name", each)))
