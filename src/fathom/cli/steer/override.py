"""`fathom override`: create overrides, see who honours them, approve, extend and end them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from fathom.cli.output import output_parameter
from fathom.cli.places import Kubeconfig, Namespace, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.cli.steer.override_flags import NO_CHANGES, ChangeFlags, changes_of

if TYPE_CHECKING:
    from fathom.cli.steer.override_actions import Obj, Overrides

Name = Annotated[str, Parameter(help="Name of the override.")]
Yes = Annotated[bool, Parameter(name=("--yes", "-y"), negative=(), help="Do not ask for confirmation.")]
Wait = Annotated[bool, Parameter(negative=(), help="Wait until every affected controller acknowledged it.")]
Timeout = Annotated[str, Parameter(help="How long to wait at most.")]
Reason = Annotated[str, Parameter(help="Why it is needed.", show_default=False)]
Output = Annotated[str, output_parameter("json", "yaml", "name", help="Print the object.")]
WAIT = "1m"
ENDS = "5m"

HELP = """Change what the control plane does for a while: bounded, acknowledged, and undone at the end.

fathom override preview -f avoid.yaml  what it would do
fathom override list -A  what is in force, and who honours it
"""


def make_app() -> App:
    app = App(
        name="override",
        help=HELP,
    )
    app.command(create)
    app.command("fathom.cli.steer.override_preview:preview", name="preview")
    app.command(approve)
    app.command("fathom.cli.steer.override_review:review", name="review")
    app.command(list_overrides, name="list")
    app.command(show)
    app.command(extend)
    app.command(end)
    return app


def create(
    name: Annotated[str, Parameter(help="Name of the override.", show_default=False)] = "",
    /,
    *,
    file: Annotated[
        Path | None,
        Parameter(
            name=("--filename", "-f"),
            allow_leading_hyphen=True,
            help="Create the object in this file (- is stdin), not flags.",
        ),
    ] = None,
    target: Annotated[
        str,
        Parameter(
            help="workload/NAME (or deployment/, replicaset/, job/), node/, zone/ or pool/NAME.",
            show_default=False,
        ),
    ] = "",
    scope: Annotated[
        str,
        Parameter(
            help="Where it applies: region/, zone/, node/ or pool/NAME, or cluster.", show_default=False
        ),
    ] = "",
    reason: Reason = "",
    lasts: Annotated[
        str,
        Parameter(
            name=("--for", "--expires-after"), help="How long it lasts, such as 45m.", show_default=False
        ),
    ] = "",
    on_end: Annotated[
        Literal["", "keep", "move"],
        Parameter(help="Whether pods that it placed stay or are evicted at its end.", show_default=False),
    ] = "",
    changes: Annotated[ChangeFlags, Parameter(name="*", group="Changes")] = NO_CHANGES,
    from_preview: Annotated[
        str,
        Parameter(
            help="The token of a preview: refuse if what it showed no longer holds.", show_default=False
        ),
    ] = "",
    dry_run: Annotated[
        Literal["none", "client", "server"],
        Parameter(help="client: only print the object. server: let the server check it, and write nothing."),
    ] = "none",
    output: Output = "",
    wait: Wait = False,
    timeout: Timeout = WAIT,
    yes: Yes = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Create an override, from flags or a file. Shows what it concerns, and asks first.

    Prints the name of the override; with --wait, also who has acknowledged it.

    fathom override create avoid-a --target workload/web --scope cluster --reason repair --for 45m \\
    --avoid-zone zone-a
    fathom override create -f avoid.yaml --wait --yes
    """
    from fathom.cli.object_reference import duration_s  # noqa: PLC0415  # See the package's docstring.
    from fathom.cli.steer.override_actions import namespace_for  # noqa: PLC0415

    seconds = duration_s(timeout, "--timeout")
    spec = {
        "target": target,
        "scope": scope,
        "reason": reason,
        "expiresAfter": lasts,
        **({"onEnd": on_end} if on_end else {}),
        "changes": changes_of(changes),
    }
    obj = _from_flags(name, spec) if file is None else _from_file(name, spec, file)
    overrides = _overrides(kubeconfig)
    meta = obj["metadata"]
    meta["namespace"] = namespace_for(
        str(obj["spec"].get("target") or ""),
        given=namespace,
        in_file=str(meta.get("namespace") or ""),
        of_context=overrides.place.namespace,
    )
    created = overrides.create(obj, from_preview=from_preview, dry_run=dry_run, output=output, yes=yes)
    if wait and dry_run == "none":
        return overrides.wait_for_acknowledgements(created, seconds=seconds, quiet=bool(output))
    return 0


def _from_flags(name: str, spec: Obj) -> Obj:
    from fathom.cli.steer.override_arguments import checked_duration, missing_flags  # noqa: PLC0415
    from fathom.cli.steer.override_file import API_VERSION, KIND  # noqa: PLC0415

    missing_flags(
        (
            ("NAME", name),
            ("--target", spec["target"]),
            ("--scope", spec["scope"]),
            ("--reason", spec["reason"].strip()),
            ("--for", spec["expiresAfter"]),
            ("at least one change, such as --pause-autoscaler", spec["changes"]),
        )
    )
    checked_duration(spec["expiresAfter"], "--for")
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def _from_file(name: str, spec: Obj, file: Path) -> Obj:
    from fathom.cli.steer.override_file import read_override  # noqa: PLC0415
    from fathom.terminal import say  # noqa: PLC0415

    if any(spec.values()):
        raise Problem("give the override with -f or with flags, not with both")
    obj, notes = read_override(file)
    if notes:
        say(f"Note: {file}: {'; '.join(notes)}", err=True)
    in_file = obj["metadata"].get("name")
    if name and in_file and name != in_file:
        raise Problem(f"{file} is the override {in_file}, not {name}")
    if not (name or in_file):
        raise Problem(f"{file} has no name: add metadata.name, or write NAME in the command")
    obj["metadata"] = {**obj["metadata"], "name": name or in_file}
    return obj


def list_overrides(
    *,
    namespace: Namespace = "",
    everywhere: Annotated[
        bool, Parameter(name=("--all-namespaces", "-A"), negative=(), help="Of all namespaces.")
    ] = False,
    output: Annotated[
        str, output_parameter("wide", "json", "yaml", "name", help="wide: also scope and reason.")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List overrides: what they change, for how long yet, who acknowledged them, and their state.

    Prints a table with a row for each override.

    fathom override list -A
    fathom override list -o wide  also scope and reason
    """
    return _overrides(kubeconfig).print_list(namespace, output, everywhere=everywhere)


def show(
    name: Name, /, *, namespace: Namespace = "", output: Output = "", kubeconfig: Kubeconfig = None
) -> int:
    """Show all of an override: what, for whom, where, why, by whom, until when, who honours it, how to undo
    it.

    Prints a line for each of these; with -o, the object.

    fathom override show avoid-a
    fathom override show avoid-a -o yaml
    """
    return _overrides(kubeconfig).show(namespace, name, output)


def extend(
    name: Name,
    /,
    *,
    lasts: Annotated[str, Parameter(name="--for", help="How long it lasts from now on, such as 30m.")],
    reason: Annotated[str, Parameter(help="Why it is needed for longer: it must be a new reason.")],
    wait: Wait = False,
    timeout: Timeout = WAIT,
    yes: Yes = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Put off the end of an override. It is a new generation, which controllers acknowledge again.

    Prints until when it lasts now.

    fathom override extend avoid-a --for 30m --reason 'the zone is not repaired yet'
    fathom override extend avoid-a --for 2h --reason 'parts arrive at noon' --wait --yes
    """
    from fathom.cli.object_reference import duration_s  # noqa: PLC0415
    from fathom.cli.steer.override_arguments import checked_duration  # noqa: PLC0415

    seconds = duration_s(timeout, "--timeout")
    checked_duration(lasts, "--for")
    if not reason.strip():
        raise Problem("--reason must say why the override is needed for longer")
    overrides = _overrides(kubeconfig)
    extended = overrides.extend(namespace, name, lasts=lasts, reason=reason, yes=yes)
    return overrides.wait_for_acknowledgements(extended, seconds=seconds) if wait else 0


def end(
    name: Name,
    /,
    *,
    wait: Annotated[
        bool, Parameter(negative=(), help="Wait for the proof of what is left of it, and print it.")
    ] = False,
    timeout: Timeout = ENDS,
    yes: Yes = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """End an override now. With --wait, exits with 1 if something is left of it.

    Prints that it is ending; with --wait, the proof of what is left.

    fathom override end avoid-a
    fathom override end avoid-a --wait --yes
    """
    from fathom.cli.documents import name_of  # noqa: PLC0415
    from fathom.cli.object_reference import duration_s  # noqa: PLC0415
    from fathom.terminal import say  # noqa: PLC0415

    seconds = duration_s(timeout, "--timeout")
    overrides = _overrides(kubeconfig)
    obj, is_held = overrides.end(namespace, name, yes=yes)
    say(f"{name_of(obj)} {'is ending' if is_held else 'ended'}")
    return overrides.wait_for_proof(obj, seconds=seconds) if wait else 0


def approve(
    name: Name,
    /,
    *,
    refuse: Annotated[bool, Parameter(negative=(), help="Refuse it instead.")] = False,
    yes: Yes = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Approve an override of somebody else, or refuse it: the spec that is shown, and no later one.

    Prints who has approved or refused it.

    fathom override approve avoid-a
    fathom override approve avoid-a --refuse --yes
    """
    _overrides(kubeconfig).decide(namespace, name, approved=not refuse, yes=yes)
    return 0


def _overrides(kubeconfig: Path | None) -> Overrides:
    from fathom.cli.steer.override_actions import Overrides  # noqa: PLC0415

    return Overrides(found_kubeconfig(kubeconfig))


app = make_app()
