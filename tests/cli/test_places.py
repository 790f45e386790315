"""Where commands find the API server and the data directory, and what they say where nothing is."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.cli.main import make_app, run
from fathom.cli.pages.reading import all_words, page_of
from fathom.cli.places import chosen_namespace, found_data, found_kubeconfig, observer_of

HERE, THERE = Path(".fathom"), Path("there")


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which there never was a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def make_cluster(directory: Path) -> None:
    (directory / "pki").mkdir(parents=True)
    (directory / "kubeconfig").write_text("kind: Config\n")


FLAG, VARIABLE = Path("flag") / "kubeconfig", "there/kubeconfig"


@pytest.mark.parametrize(
    ("flag", "variable", "clusters", "found"),
    [
        (None, "", [], (None, HERE)),
        (None, "", [HERE], (HERE / "kubeconfig", HERE)),
        (None, VARIABLE, [HERE], (None, HERE)),  # Another cluster's, which is not fathom's.
        (None, VARIABLE, [HERE, THERE], (None, THERE)),
        (FLAG, VARIABLE, [HERE, THERE, FLAG.parent], (FLAG, FLAG.parent)),
        (FLAG, "", [HERE], (FLAG, HERE)),
    ],
)
def test_flag_then_variable_then_this_directory(
    flag: Path | None,
    variable: str,
    clusters: list[Path],
    found: tuple[Path | None, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kubeconfig, data = found
    monkeypatch.setenv("KUBECONFIG", variable)
    for cluster in clusters:
        make_cluster(cluster)
    assert found_kubeconfig(flag) == kubeconfig
    assert found_data(None, flag).absolute() == data.absolute()
    assert found_data(Path("given"), flag) == Path("given")


APP = make_app()
# Those that work without a cluster, or can be told of one in other ways.
WITHOUT = {"runbook list", "runbook show", "mcp", "serve agent"}
MANIFESTS = ("web.yaml", "job.yaml", "avoid.yaml")  # That examples name.
MANIFEST = "apiVersion: fathom.dev/v1alpha1\nkind: SchedulerOverride\nmetadata: {name: x}\nspec: {}\n"


def asking_commands() -> Iterator[str]:
    """The first example of each command that asks a server, without the flag that says which."""
    for page in (page_of(APP, words) for words in all_words(APP)):
        asks = any("--kubeconfig" in option.names for option in page.options)
        if asks and page.words[0] != "bench" and " ".join(page.words) not in WITHOUT:
            yield re.sub(r" --kubeconfig \S+|( [>|] .*)", "", page.examples[0].command)


ASKING = [*asking_commands(), "why pod/x", "runbook show x", "decisions pod/x -n shop"]
READING = ["down", "store verify", "store backup f"]
RECORDING = ["record status", "record export f", "record keep --around pod/x --for 5m"]


@pytest.mark.parametrize("command", ASKING)
def test_without_a_cluster_every_question_has_the_same_answer(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in MANIFESTS:
        Path(name).write_text(MANIFEST)
    assert run(shlex.split(command.removeprefix("fathom "), comments=True)) == 2
    told = "no kubeconfig: start a cluster here with `fathom up`, or name one with --kubeconfig or KUBECONFIG"
    assert capsys.readouterr() == ("", f"fathom: error: {told}\n")


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("directory", ["missing", "empty"])
def test_where_no_cluster_ever_was_nothing_is_to_be_restored(
    command: str, directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if directory == "empty":
        HERE.mkdir()
    assert run(command.split()) == 2
    state = "does not exist" if directory == "missing" else "has no cluster"
    told = f"{state}: name the data directory of a cluster with --data, or start one with `fathom up`"
    assert capsys.readouterr() == ("", f"fathom: error: .fathom {told}\n")


@pytest.mark.parametrize("command", RECORDING)
def test_recordings_are_read_where_the_data_directory_is(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    told = ".fathom does not exist, and recordings are read where the data directory is: run `fathom record`"
    told += " on the machine of the cluster, with --data DIR"
    assert capsys.readouterr() == ("", f"fathom: error: {told}\n")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("record status", "there are no tapes in .fathom: --data names the data directory of a cluster"),
        ("decisions", "there are no recorded decisions in .fathom"),
    ],
)
def test_an_empty_list_says_where_it_looked(
    command: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (HERE / "journal").mkdir(parents=True)
    assert run(command.split()) == 1
    assert capsys.readouterr() == (f"{told}\n", "")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("kubeconfig", ".fathom/kubeconfig does not exist: start a cluster with `fathom up --data .fathom`"),
        ("store restore f", "f does not exist: name a file that `fathom store backup` has written"),
        (
            "replay f",
            "f does not exist: name a file of `fathom record export`, or a failing run of `fathom sim`",
        ),
    ],
)
def test_a_file_that_is_missing_is_told_with_what_writes_it(
    command: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    assert capsys.readouterr() == ("", f"fathom: error: {told}\n")


def test_a_variable_that_names_nothing_is_the_cause(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/gone/config")
    assert run(["get", "pods"]) == 2
    told = "KUBECONFIG names /gone/config, which does not exist: correct or unset it"
    assert capsys.readouterr() == ("", f"fathom: error: {told}\n")


@pytest.mark.parametrize(
    ("given", "of_context", "chosen"), [("a", "b", "a"), ("", "b", "b"), ("", "", "default")]
)
def test_a_namespace_is_the_one_given_or_the_contexts(given: str, of_context: str, chosen: str) -> None:
    context = {"cluster": "c", "user": "u", **({"namespace": of_context} if of_context else {})}
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
    }
    HERE.mkdir()
    (HERE / "kubeconfig").write_text(json.dumps(config))
    assert chosen_namespace(given, None) == chosen


def test_an_observer_is_found_by_the_address_of_the_cluster_that_it_observes() -> None:
    assert observer_of("https://prod:6443") is None
    HERE.mkdir()
    (HERE / "attached").write_text("https://prod:6443\n")
    assert observer_of("https://prod:6443") is None  # It has not served yet.
    (HERE / "kubeconfig").touch()
    assert observer_of("https://prod:6443") == HERE / "kubeconfig"
    assert observer_of("https://other:6443") is None
