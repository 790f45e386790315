"""What shells complete: words of fathom, and names from a cluster, in real shells."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.api.harness import Api
from tests.cli.asking import PODS, Fathom, node, pod, told
from tests.cli.terminals import Terminal

from fathom.cli.complete import FILES, NO_FILES, NO_SPACE, Candidates, candidates_for
from fathom.cli.complete_names import library_names, scenario_names
from fathom.cli.pages.completing import Slot, flag_value, slot_of
from fathom.cli.pages.page import CommandPage, Option, OptionGroup

WHAT = Option(names=("WHAT",), value="TEXT", about="", repeated=True)
OUTPUT = Option(names=("--output", "-o"), value="json", about="", choices=("json",))
WATCH = Option(names=("--watch",), value="", about="")
PAGE = CommandPage(
    words=("get",),
    paragraphs=(),
    examples=(),
    arguments=(WHAT,),
    groups=(OptionGroup("Options", (OUTPUT, WATCH)),),
)


@pytest.mark.parametrize(
    ("words", "slot"),
    [
        ([""], Slot(typed="", option=WHAT)),
        (["pods", "we"], Slot(typed="we", option=WHAT, before=("pods",))),
        (["--watch", "po"], Slot(typed="po", option=WHAT)),
        (["-o", ""], Slot(typed="", option=OUTPUT)),
        (["pods", "--output", "j"], Slot(typed="j", option=OUTPUT)),
        (["--output=j"], Slot(typed="j", prefix="--output=", option=OUTPUT)),
        (["-o", "json", ""], Slot(typed="", option=WHAT)),
        (["--wa"], Slot(typed="--wa", is_flag=True)),
        (["--", "--wa"], Slot(typed="--wa", option=WHAT)),
    ],
)
def test_the_last_word_is_a_flag_a_value_or_an_argument(words: list[str], slot: Slot) -> None:
    assert slot_of(PAGE, words) == slot


@pytest.mark.parametrize(
    ("words", "value"), [(["-o", "json"], "json"), (["--output=yaml", ""], "yaml"), (["-o"], ""), ([], "")]
)
def test_values_of_flags_are_found_among_the_words(words: list[str], value: str) -> None:
    assert flag_value(PAGE, words, "--output") == value


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["wh"], Candidates((("why", "Why objects are as they are, and what would help"),))),
        (["store", "v"], ["verify"]),
        (["why", "--outp"], ["--output"]),
        (["why", "-o", "w"], ["wide"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["get", "-o", "j"], ["json", "jsonpath="]),
        (["store", "backup", ""], Candidates(directive=FILES)),
        (["sim", "run", "duplicate-r"], ["duplicate-reservation"]),
        (["runbook", "show", "drain"], ["drain-zone"]),
        (["nope", ""], Candidates()),
        (["why", "pod/"], Candidates()),
        (["version", ""], Candidates()),
    ],
)
def test_words_of_fathom_are_completed_without_a_cluster(
    words: list[str], found: Candidates | list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    candidates = candidates_for(words)
    if isinstance(found, Candidates):
        assert candidates == found
    else:
        assert ([value for value, _ in candidates.found], candidates.directive) == (found, NO_FILES)


def test_scenarios_and_runbooks_are_found_without_being_loaded() -> None:
    from fathom.sim.scenarios import SCENARIOS
    from fathom.steer.runbook_library import library

    assert (scenario_names(), library_names()) == (sorted(SCENARIOS), sorted(library()))


# In shells, with a cluster.

BASH = """
source <(fathom completion bash)
for line in "$@"; do
    COMP_LINE=$line COMP_POINT=${#line}
    _fathom 2>/dev/null
    printf '%s\\n' "$line: ${COMPREPLY[*]}"
done
"""
FISH = "fathom completion fish | source; for line in $argv; echo $line: (complete -C $line); end"
LINES = {
    "fathom why pod/": "pod/web-2 pod/web-10",
    "fathom get pods web-1": "web-10",
    "fathom cordon n": "n-1",
    "fathom timeline --namespace=def": "default",
    "fathom override end x": "",
}


@pytest.fixture(scope="module")
def path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def with_cluster(tmp_path: Path, check: Callable[[dict[str, str]], None]) -> None:
    """Run a check beside a real API server that has some objects."""

    async def story(api: Api, _scheduler: object, _fathom: Fathom) -> None:
        await api.post("/api/v1/nodes", node("n-1", "4"))
        for name in ("web-10", "web-2"):
            await api.post(PODS, pod(name, "1"))
        config = str(tmp_path / "kubeconfig-of-commands")
        await asyncio.to_thread(check, {**os.environ, "KUBECONFIG": config})

    told(story, tmp_path)


def run_in(command: list[str], env: dict[str, str], path: str) -> dict[str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**env, "PATH": path})
    parts = [line.partition(":") for line in done.stdout.splitlines()]
    return {line: found.strip() for line, _, found in parts}


@pytest.mark.live
def test_bash_completes_names_of_the_cluster(tmp_path: Path, path: str) -> None:
    """bash regards what follows '=' as a word of its own."""
    with_cluster(tmp_path, lambda env: _equal(run_in(["bash", "-c", BASH, "bash", *LINES], env, path), LINES))


@pytest.mark.live
def test_fish_completes_names_of_the_cluster(tmp_path: Path, path: str) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    wanted = {**LINES, "fathom timeline --namespace=def": "--namespace=default"}
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with_cluster(
        tmp_path, lambda env: _equal(run_in(["fish", "-c", FISH, *LINES], {**env, **home}, path), wanted)
    )


@pytest.mark.live
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_person_at_a_shell_completes_with_the_tab_key(tmp_path: Path, path: str, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    quiet = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    first = {"bash": "", "zsh": "autoload -Uz compinit && compinit -u -D; unsetopt zle_bracketed_paste;"}[
        shell
    ]

    def check(env: dict[str, str]) -> None:
        with Terminal(
            quiet, columns=120, env={**env, "PATH": path, "PS1": "", "HOME": str(tmp_path)}
        ) as terminal:
            terminal.type(f"{first} source <(fathom completion {shell}); echo load''ed\n")
            terminal.wait_for("loaded")
            terminal.type("fathom why pod/web-1\t; echo en''ded\n")
            assert "fathom why pod/web-10" in terminal.wait_for("ended")

    with_cluster(tmp_path, check)


def _equal(found: dict[str, str], wanted: dict[str, str]) -> None:
    assert found == wanted


@pytest.mark.live
def test_nothing_is_said_where_no_server_answers(path: str) -> None:
    env = {**os.environ, "PATH": path, "KUBECONFIG": "/nowhere"}
    done = subprocess.run(
        ["kubectl_complete-fathom", "why", "pod/"], capture_output=True, text=True, check=True, env=env
    )
    assert (done.stdout, done.stderr) == (":4\n", "")


def test_kinds_are_unfinished_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(env: dict[str, str]) -> None:
        monkeypatch.setenv("KUBECONFIG", env["KUBECONFIG"])
        assert candidates_for(["why", "deploy"]) == Candidates(
            (("deployment/", "Deployment"),), NO_FILES | NO_SPACE
        )
        assert candidates_for(["get", "pods", "web-2", ""]).found == (("web-10", ""),)

    with_cluster(tmp_path, check)


def test_the_kubeconfig_that_is_typed_is_the_one_that_is_asked(tmp_path: Path) -> None:
    def check(env: dict[str, str]) -> None:
        words = ["why", "--kubeconfig", env["KUBECONFIG"], "pod/web-2"]
        assert candidates_for(words).found == (("pod/web-2", ""),)

    with_cluster(tmp_path, check)


@pytest.mark.kubectl
def test_kubectl_completes_its_plugin(kubectl: str, path: str) -> None:
    env = {**os.environ, "PATH": path, "KUBECONFIG": "/nowhere"}
    done = subprocess.run(
        [kubectl, "__complete", "fathom", "stor"], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout == "store\tBack up, restore, verify and migrate stores\n:4\n"
