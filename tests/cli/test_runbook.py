"""`fathom runbook` without a cluster: the library is there, and everything else says in one line what is
missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.cli.main import run


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def test_the_library_is_listed_and_shown_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runbook", "list"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["NAMESPACE", "NAME", "VERSION", "SOURCE", "TITLE"]
    assert [line.split()[1] for line in out.splitlines()[1:]] == [
        "drain-zone",
        "free-leaked-reservations",
        "freeze-autoscaling",
        "recover-workload-from-stale-zone",
        "roll-policy-back",
        "shift-traffic",
    ]
    assert err.startswith("fathom: runbooks of the cluster are not listed: no kubeconfig")
    assert run(["runbook", "show", "drain-zone"]) == 0
    assert "    undone by: delete SchedulerOverride ${run}\n" in capsys.readouterr().out
    assert run(["runbook", "show", "drain-zone", "-o", "yaml"]) == 0
    assert capsys.readouterr().out.startswith("apiVersion: fathom.dev/v1alpha1\nkind: Runbook\n")


def test_a_wide_list_says_what_a_runbook_has_to_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runbook", "list", "-o", "wide"]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "VERSION", "SOURCE", "TITLE", "NEEDS", "HASH"]
    assert first.split()[1:4] == ["drain-zone", "2", "library"]
    assert first.split()[-2:] == ["zone,reason", "3c8c0f5cce7b"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "no-such-book"], "no kubeconfig"),
        (["run", "drain-zone", "--set", "zone"], "write --set NAME=VALUE, not 'zone'"),
        (["resume", "r", "--answer", "a=maybe"], "answer step a with yes or no"),
        (["report", "r"], "no kubeconfig"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["runbook", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), said in err) == ("", 1, True), err
