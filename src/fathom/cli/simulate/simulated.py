"""Shared by the commands for simulated runs: find scenarios, apply patches, read and replay kept runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.cli.output import print_document
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.status_line import waiting
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.sim.report.artifact import Artifact
    from fathom.sim.report.artifact_head import Head, PatchHead
    from fathom.sim.world.scenario import Scenario

# Values of `--trust`: code that a run's file names or carries and that may be run.
TRUST_PATCH, TRUST_SCENARIO = "patch", "scenario"


def find(name: str) -> Scenario:
    from fathom.sim.scenarios import NoScenario, find  # noqa: PLC0415  # See the package's docstring.

    if "::" in name:
        raise Problem(f"{name} is a test: run it again with pytest '{name}' --fathom-replay FILE")
    try:
        return find(name)
    except NoScenario as error:
        raise Problem(str(error)) from error


def chosen(names: str) -> list[Scenario]:
    from fathom.sim.scenarios import SCENARIOS  # noqa: PLC0415

    return list(SCENARIOS.values()) if names == "all" else [find(name) for name in names.split(",")]


def seeds(text: str) -> range:
    from fathom.sim.search.seeds import BadSeeds, seeds_of  # noqa: PLC0415

    try:
        return seeds_of(text)
    except BadSeeds as error:
        raise Problem(f"--seeds {error}") from error


def read(file: Path) -> Artifact:
    from fathom.sim.report.artifact import read  # noqa: PLC0415
    from fathom.sim.report.artifact_head import NotAnArtifact  # noqa: PLC0415

    try:
        return read(file)
    except NotAnArtifact as error:
        raise Problem(str(error)) from error


# Patches.


def apply(patch: Path | None) -> None:
    if patch is None:
        return
    from fathom.sim.search.patches import BadPatch, load  # noqa: PLC0415

    try:
        load(patch)
    except BadPatch as error:
        raise Problem(str(error)) from error


def apply_recorded(kept: Path, patch: Path | None, *, trust: tuple[str, ...]) -> Path | None:
    """Apply the patch that the run was recorded with: given again or, if the user agrees, as recorded.
    Nothing runs before the user has agreed to everything that the run's file makes us run."""
    from fathom.sim.report.artifact_head import NotAnArtifact, head_of  # noqa: PLC0415

    try:
        head = head_of(kept)
    except NotAnArtifact as error:
        raise Problem(str(error)) from error
    recorded, file = head.patch, patch
    if patch is not None and not patch.is_file():
        raise Problem(f"{patch} is not a Python file")
    if problems := _untrusted_code(head, patch, trust):
        raise Problem("; ".join(problems))
    if patch is None and recorded is not None:
        file = _recorded_patch(recorded)
    apply(file)
    if patch is not None and not _is_same_patch(patch, recorded):
        say(f"note: {patch} is not the patch that this run was recorded with", err=True)
    return file


def _is_same_patch(file: Path, recorded: PatchHead | None) -> bool:
    from fathom.sim.report.artifact_head import patch_of  # noqa: PLC0415

    return recorded is not None and patch_of(file).sha256 == recorded.sha256


def _untrusted_code(head: Head, patch: Path | None, trust: tuple[str, ...]) -> list[str]:
    """Code that the file would make us run and that the user has not agreed to. A patch with the recorded
    hash proves nothing: the sender of the file chose both."""
    problems = []
    if (file := head.scenario_file) and not {TRUST_SCENARIO, file, head.plan.scenario} & set(trust):
        problems.append(
            f"this run needs the scenario in {file}: to run that code, add --trust {TRUST_SCENARIO}"
        )
    if head.patch is not None and patch is None and TRUST_PATCH not in trust:
        ways = f"give it with --patch, or run the recorded copy with --trust {TRUST_PATCH}"
        problems.append(f"this run was recorded with the patch {head.patch.file}: {ways}")
    return problems


def _recorded_patch(recorded: PatchHead) -> Path:
    file = Path(recorded.file)
    if file.is_file() and _is_same_patch(file, recorded):
        return file
    if not recorded.text:
        state = "has changed" if file.is_file() else "is missing"
        raise Problem(f"this run was recorded with the patch {file}, which {state}: give it with --patch")
    # The copy stays after this process, so that tracebacks and the next command find it.
    copy = Path(tempfile.mkdtemp(prefix="fathom-patch-")) / file.name
    copy.write_text(recorded.text)
    return copy


# `fathom replay` of a simulated run.


def replay_run(file: Path, *, patch: Path | None, trust: tuple[str, ...], output: str) -> int:
    """Replay a kept run: do the same inputs give the same outcome?"""
    patched = apply_recorded(file, patch, trust=trust)
    from fathom.sim.report import run_report  # noqa: PLC0415  # After the patch.
    from fathom.sim.report.artifact_head import NotAnArtifact  # noqa: PLC0415
    from fathom.sim.report.replay import as_json as replay_json  # noqa: PLC0415
    from fathom.sim.report.replay import replay  # noqa: PLC0415

    artifact = read(file)
    scenario = find(artifact.plan.scenario)
    try:
        with waiting(f"replaying {file}", quiet=bool(output)):
            replayed, result = replay(artifact, scenario)
    except NotAnArtifact as error:
        raise Problem(f"{file}: {error}") from error
    code = 0 if replayed.reproduced else ANSWER_IS_NO
    if output:
        print_document(replay_json(artifact, replayed, result), output)
        return code
    for warning in replayed.warnings:
        say(f"note: {warning}")
    if replayed.divergence is not None:
        say(f"NOT reproduced: {replayed.divergence}")
        return code
    report, _ = run_report.report(scenario, artifact.plan, patch=str(patched or ""))
    say("reproduced, input for input", *run_report.as_lines(report))
    return code
