"""The flags of `fathom override create`: one for each change, and objects from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.cli.steering import FLAGS, LESSON

from fathom.cli.main import run
from fathom.cli.problem import Problem
from fathom.cli.steer.override_actions import namespace_for
from fathom.cli.steer.override_arguments import other_spelling
from fathom.cli.steer.override_file import completed
from fathom.cli.steer.override_flags import FLAGS as CHANGE_FLAGS
from fathom.kinds.override_changes import CHANGES
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import read

# Written by hand: what a user types for each change, and what the override then has.
TYPED: dict[str, tuple[tuple[str, ...], Any]] = {
    "pauseAutoscaler": (("--pause-autoscaler",), True),
    "pauseRollout": (("--pause-rollout",), True),
    "pauseRepair": (("--pause-repair",), True),
    "pauseExpansion": (("--pause-expansion",), True),
    "avoidZones": (("--avoid-zone", "a", "--avoid-zone", "b"), ["a", "b"]),
    "avoidNodes": (("--avoid-node", "n1,n2"), ["n1", "n2"]),
    "avoidNodeClasses": (("--avoid-node-class", "slow"), ["slow"]),
    "avoidPools": (("--avoid-pool", "p"), ["p"]),
    "avoidTopology": (
        ("--avoid-topology", "x.io/rack=r1", "--avoid-topology", "x.io/rack=r2"),
        {"x.io/rack": ["r1", "r2"]},
    ),
    "allowReservedCapacityClass": (("--allow-class", "recovery"), "recovery"),
    "reservedReplicas": (("--reserved-replicas", "2"), 2),
    "raisePriority": (("--raise-priority", "1000"), 1000),
    "cordon": (("--cordon",), True),
    "drain": (("--drain",), True),
    "approveRepairs": (("--approve-repair", "web-0-unbind"), ["web-0-unbind"]),
    "trafficWeights": (("--traffic-weight", "eu-west=90,eu-east=10"), {"eu-west": 90, "eu-east": 10}),
    "breakGlassRole": (("--break-glass-role", "emergency"), "emergency"),
}
BASE = ("--target=workload/web", "--scope=cluster", "--reason=r", "--for=45m")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    config = {
        "current-context": "prod",
        "contexts": [{"name": "prod", "context": {"cluster": "eu", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "eu", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


def printed(capsys: pytest.CaptureFixture[str], kubeconfig: str, *words: str) -> Any:
    """The object that a dry run on the client prints."""
    words = ("override", "create", *words, "--dry-run=client", "-o", "yaml", "--kubeconfig", kubeconfig)
    assert run(words) == 0, capsys.readouterr().err
    return yaml.safe_load(capsys.readouterr().out)


def test_every_change_of_the_table_has_a_flag_and_every_flag_a_change() -> None:
    assert [flag.change for flag in CHANGE_FLAGS] == list(CHANGES) == list(TYPED)


@pytest.mark.parametrize("change", CHANGES)
def test_a_flag_makes_its_change_and_no_other(
    change: str, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, value = TYPED[change]
    obj = printed(capsys, kubeconfig, "x", *BASE, *typed)
    assert obj["spec"]["changes"] == {change: value}
    stored = msgspec.to_builtins(read(SchedulerOverride, obj).spec.changes)
    assert msgspec.json.decode(msgspec.json.encode(stored)) == {change: value}


def test_flags_make_the_lessons_override(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, kubeconfig, "risk-api-eu-west-recovery", *FLAGS) == {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": "risk-api-eu-west-recovery", "namespace": "shop"},
        "spec": LESSON,
    }


def test_the_lessons_bare_object_is_completed_with_a_note(
    tmp_path: Path, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lesson.yaml"
    bare = {
        "kind": "SchedulerOverride",
        "name": "risk-api-eu-west-recovery",
        "spec": LESSON,
        "status": {"observedGeneration": 12, "active": True},
    }
    file.write_text(yaml.safe_dump(bare))
    words = ("override", "create", "-f", str(file), "--dry-run=client", "--kubeconfig", kubeconfig)
    assert run(words) == 0
    shown = capsys.readouterr()
    assert shown.out == "scheduleroverride.fathom.dev/risk-api-eu-west-recovery created (dry run)\n"
    assert shown.err == (
        f"Note: {file}: apiVersion fathom.dev/v1alpha1 was added; name was moved into metadata;"
        " status was left out, because the server writes it\n"
    )
    assert printed(capsys, kubeconfig, "-f", str(file))["spec"] == LESSON


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("x",), "an override needs --target, --scope, --reason, --for, at least one change"),
        (("x", "--target=workload/a", "--pause-rollout"), "an override needs --scope, --reason, --for;"),
        ((*BASE, "--cordon"), "an override needs NAME"),
        (("x", *BASE), "at least one change, such as --pause-autoscaler"),
        (("x", *BASE[:3], "--for=soon", "--cordon"), "--for must be a duration such as 30s"),
        (("x", *BASE[:2], "--reason= ", "--for=1m", "--cordon"), "needs --reason"),
        (("x", *BASE, "--reserved-replicas", "two"), "--reserved-replicas"),
        (("x", *BASE, "--traffic-weight", "eu-west"), "write it as NAME=VALUE"),
        (("x", *BASE, "--traffic-weight", "eu-west=all"), "must be a whole number"),
        (("x", *BASE, "--make-it-work"), "--make-it-work"),
        (("-f", "gone.yaml"), "cannot read gone.yaml: No such file or directory"),
        (("-f", "gone.yaml", "--cordon"), "with -f or with flags, not with both"),
        (("x", *BASE, "--cordon", "--wait", "--timeout", "long"), "--timeout must be a duration"),
        (("x", *BASE, "--cordon"), "there is no terminal to ask at"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: tuple[str, ...], complaint: str, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(("override", "create", *words, "--kubeconfig", kubeconfig)) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n"), shown.err[:15]) == ("", 1, "fathom: error: ")
    assert complaint in shown.err


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (["kind"], "is not an object"),
        ({"kind": "Pod", "spec": {}}, "is a Pod, not a SchedulerOverride"),
        ({"kind": "SchedulerOverride"}, "has no spec"),
        ({"apiVersion": "v1", "spec": {}}, "has apiVersion v1"),
        ({"spec": {}, "target": "workload/x"}, "has no field target"),
        ({"spec": {}, "metadata": 3}, "metadata is not an object"),
    ],
)
def test_a_file_with_something_else_is_refused(document: Any, complaint: str) -> None:
    with pytest.raises(Problem, match=complaint):
        completed(document, "f.yaml")


def test_a_file_of_two_objects_is_refused(
    tmp_path: Path, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("kind: SchedulerOverride\n---\nkind: SchedulerOverride\n")
    assert run(("override", "create", "-f", str(file), "--kubeconfig", kubeconfig)) == 2
    assert "has 2 objects" in capsys.readouterr().err


def test_overrides_of_infrastructure_go_to_fathoms_own_namespace() -> None:
    def namespace(target: str, *, given: str = "", in_file: str = "") -> str:
        return namespace_for(target, given=given, in_file=in_file, of_context="shop")

    assert namespace("zone/a") == "fathom-system"
    assert namespace("workload/a") == "shop"
    assert namespace("workload/a", in_file="team") == "team"
    assert namespace("zone/a", given="shop") == "shop"
    with pytest.raises(Problem, match="the object is for namespace team, but --namespace is shop"):
        namespace("workload/a", given="shop", in_file="team")


def test_the_same_duration_again_is_written_in_another_way() -> None:
    assert other_spelling("30m", "45m") == "30m"
    assert other_spelling("45m", "45m") == "2700s"
    assert other_spelling("2700s", "2700s") == "2700000ms"
