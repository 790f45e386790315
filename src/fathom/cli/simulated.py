"""What the commands about simulated runs share: finding stories, putting patches in force, keeping runs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.cli.problem import ANSWER_IS_NO, Problem

if TYPE_CHECKING:
    from fathom.sim.artifact import Artifact
    from fathom.sim.kept import Patch
    from fathom.sim.scenario import Scenario

# As `--trust`: run the patch whose text is in the file.
TRUST_PATCH = "patch"


def find(name: str) -> Scenario:
    from fathom.sim.scenarios import NoScenario, find  # noqa: PLC0415  # See the room's docstring.

    if "::" in name:
        raise Problem(f"{name} is a test: pytest '{name}' --fathom-replay FILE tells it again")
    try:
        return find(name)
    except NoScenario as error:
        raise Problem(str(error)) from error


def chosen(names: str) -> list[Scenario]:
    from fathom.sim.scenarios import SCENARIOS  # noqa: PLC0415

    return list(SCENARIOS.values()) if names == "all" else [find(name) for name in names.split(",")]


def seeds(text: str) -> range:
    from fathom.sim.seeds import BadSeeds, seeds_of  # noqa: PLC0415

    try:
        return seeds_of(text)
    except BadSeeds as error:
        raise Problem(f"--seeds {error}") from error


def print_json(document: object) -> None:
    import msgspec  # noqa: PLC0415

    print(msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2).decode())


def read(file: Path) -> Artifact:
    from fathom.sim.artifact import read  # noqa: PLC0415
    from fathom.sim.kept import NotAnArtifact  # noqa: PLC0415

    try:
        return read(file)
    except NotAnArtifact as error:
        raise Problem(str(error)) from error


# Patches.


def apply(patch: Path | None) -> None:
    if patch is None:
        return
    from fathom.sim.patches import BadPatch, load  # noqa: PLC0415

    try:
        load(patch)
    except BadPatch as error:
        raise Problem(str(error)) from error


def apply_recorded(kept: Path, given: Path | None, *, trusted: bool) -> Path | None:
    """The patch that was in force then: given again, or found where it was; or, where that is agreed to, as
    it is in the file."""
    from fathom.sim.kept import NotAnArtifact, head_of  # noqa: PLC0415

    try:
        recorded = head_of(kept).patch
    except NotAnArtifact as error:
        raise Problem(str(error)) from error
    file = given
    if given is not None and not given.is_file():
        raise Problem(f"{given} is no Python file")
    if given is None and recorded is not None:
        file = _found(recorded, trusted=trusted)
    apply(file)
    if given is not None and not _is(given, recorded):
        print(f"note: {given} is not the patch that this run was recorded with", file=sys.stderr)
    return file


def _is(file: Path, recorded: Patch | None) -> bool:
    from fathom.sim.kept import patch_of  # noqa: PLC0415

    return recorded is not None and patch_of(file).sha256 == recorded.sha256


def _found(recorded: Patch, *, trusted: bool) -> Path:
    file = Path(recorded.file)
    if file.is_file() and _is(file, recorded):
        return file
    what = "has changed" if file.is_file() else "is not here"
    if not recorded.text:
        raise Problem(f"this run was recorded with the patch {file}, which {what}: give it with --patch")
    if not trusted:
        ways = f"give it with --patch, or run the text that is in the file with --trust {TRUST_PATCH}"
        raise Problem(f"this run was recorded with the patch {file}, which {what}: {ways}")
    # It outlives this process, so that stacks and the next command find it.
    copy = Path(tempfile.mkdtemp(prefix="fathom-patch-")) / file.name
    copy.write_text(recorded.text)
    return copy


# `fathom replay` of a simulated run.


def replay_run(file: Path, *, patch: Path | None, trust: tuple[str, ...], as_json: bool) -> int:
    """See a kept run again: the same inputs, and the same outcome?"""
    patched = apply_recorded(file, patch, trusted=TRUST_PATCH in trust)
    from fathom.sim import report as reports  # noqa: PLC0415  # After the patch.
    from fathom.sim.replaying import as_json as replay_json  # noqa: PLC0415
    from fathom.sim.replaying import replay  # noqa: PLC0415

    artifact = read(file)
    scenario = find(artifact.plan.scenario)
    replayed, result = replay(artifact, scenario)
    code = 0 if replayed.reproduced else ANSWER_IS_NO
    if as_json:
        print_json(replay_json(artifact, replayed, result))
        return code
    for warning in replayed.warnings:
        print(f"note: {warning}")
    if replayed.divergence is not None:
        print(f"NOT reproduced: {replayed.divergence}")
        return code
    report, _ = reports.report(scenario, artifact.plan, patch=str(patched or ""))
    print("\n".join(["reproduced, input for input", *reports.as_lines(report)]))
    return code
