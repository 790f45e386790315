"""-o: the same flag and the same error everywhere; YAML and JSON are the same document."""

from __future__ import annotations

import json
import platform
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from tests.api.harness import Api, deployment
from tests.cli.asking import PODS, Fathom, node, pod, told

from fathom.cli.main import make_app, run
from fathom.cli.output import print_document
from fathom.cli.pages.reading import all_words, page_of

ROOT = Path(__file__).parents[2]
APP = make_app()
FORMATS = {
    " ".join(page.words): option.choices
    for page in (page_of(APP, words) for words in all_words(APP))
    for option in page.options
    if "--output" in option.names
}
BENCHMARKS = ("api", "watch", "record", "cache", "schedule", "why", "sim", "fork", "cluster")
JSON, NAMED, WIDE = ("json", "yaml"), ("json", "yaml", "name"), ("wide", "json", "yaml", "name")


def test_every_command_that_prints_answers_or_objects_has_its_formats() -> None:
    expected = {
        "why": WIDE,
        "status": WIDE,
        "timeline": WIDE,
        "coupling": (*WIDE, "dot"),
        "decisions": WIDE,
        "override create": NAMED,
        "override preview": JSON,
        "override review": WIDE,
        "override list": WIDE,
        "override show": NAMED,
        "runbook list": WIDE,
        "runbook show": NAMED,
        "runbook plan": NAMED,
        "runbook report": NAMED,
        "repair list": WIDE,
        "get": (*WIDE, "jsonpath=TEMPLATE", "custom-columns=HEAD:PATH,…"),
        **dict.fromkeys(("apply", "patch", "label", "annotate", "taint"), NAMED),
        **dict.fromkeys(("set image", "set resources"), NAMED),
        **dict.fromkeys(("create", "create configmap", "create secret", "create namespace"), NAMED),
        "scale": NAMED,
        "delete": ("name",),
        "demo requests": JSON,
        "attach": ("json", "yaml"),
        "chaos": ("json", "yaml"),
        "page sessions": ("json", "yaml"),
        "top": ("text", *NAMED),
        "version": ("wide", *JSON),
        "record status": WIDE,
        "replay": JSON,
        "sim list": WIDE,
        "sim run": NAMED,
        "sim explore": NAMED,
        "sim check-determinism": JSON,
        "sim shrink": NAMED,
        "sim zoo": JSON,
        **{f"bench {name}": JSON for name in BENCHMARKS},
        "doctor": WIDE,
        "store backup": NAMED,
        "store restore": NAMED,
        "store verify": NAMED,
        "store migrate": NAMED,
    }
    assert FORMATS == expected  # noqa: SIM300 - it is found, not chosen


def test_what_has_neither_names_nor_more_columns_says_why() -> None:
    """Each is in the decision about -o; a command that could have more is not to stay as it is unseen."""
    page = (ROOT / "docs/decisions/0044-output-formats.md").read_text()
    without = {command for command, formats in FORMATS.items() if not {"name", "wide"} & set(formats)}
    listed = {
        name for row in re.findall(r"^\| (`.*?) \|", page, flags=re.M) for name in re.findall("`(.*?)`", row)
    }
    assert {"bench" if name.startswith("bench ") else name for name in without} == listed


@pytest.mark.parametrize("command", FORMATS)
def test_an_unknown_format_is_the_same_error_everywhere(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(page_of(APP, command.split()).examples[0].command)[1:]
    own, program = _split(words[: words.index("-o")] if "-o" in words else words)
    assert run([*own, "-o", "nope", *program]) == 2
    told_formats = ", ".join(FORMATS[command])
    assert capsys.readouterr() == ("", f"fathom: error: -o must be one of {told_formats}, not 'nope'\n")


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words of fathom, and those of the program that it is to run."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at:]


def test_yaml_and_json_are_the_same_document_in_the_same_order(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"b": [1, {"c": "yes"}], "a": None, "text": "two\nlines", "path": Path("x")}
    print_document(document, "yaml")
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    print_document(document, "json")
    as_json = json.loads(capsys.readouterr().out)
    assert as_yaml == as_json == {**document, "path": "x"}
    assert list(as_yaml) == list(as_json) == list(document)


def test_wide_and_name_of_what_is_installed_and_of_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "-o", "wide"]) == 0
    machine = f"{sys.platform}/{platform.machine()}"
    assert capsys.readouterr().out.endswith(f" (Python {sys.version.split()[0]}, {machine})\n")
    assert run(["sim", "list", "-o", "wide"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["SCENARIO", "SERVERS", "FAULTS", "ABOUT"]
    assert run(["sim", "list", "-o", "name"]) == 0
    assert capsys.readouterr().out.splitlines() == [row.split()[0] for row in rows]


@pytest.mark.live
def test_questions_are_answered_in_every_format(tmp_path: Path) -> None:
    async def story(api: Api, _scheduler: object, fathom: Fathom) -> None:
        await api.post("/api/v1/nodes", node("n-1", "4"))
        await api.post(PODS, pod("large", "64"))
        for words in (["why", "pod/large"], ["coupling", "scheduler"], ["coupling"]):
            _, as_json, _ = await fathom(*words, "-o", "json")
            _, as_yaml, _ = await fathom(*words, "-o", "yaml")
            assert _timeless(yaml.safe_load(as_yaml)) == _timeless(json.loads(as_json))
        for question in ("why", "timeline"):
            assert (await fathom(question, "pod/large", "-o", "name"))[1:] == ("pods/large\n", "")
        await api.post("/apis/apps/v1/namespaces/default/deployments", deployment("web"))
        assert (await fathom("status", "deploy/web", "-o", "name"))[1:] == ("deployments.apps/web\n", "")
        assert (await fathom("coupling", "autoscaling", "-o", "name"))[1].splitlines()[0].count("/") == 1
        assert "scheduler" in (await fathom("coupling", "-o", "name"))[1].splitlines()
        code, names, _ = await fathom("runbook", "show", "drain-zone", "-o", "name")
        assert (code, names) == (0, "runbook.fathom.dev/drain-zone\n")

    told(story, tmp_path)


def _timeless(document: object) -> object:
    """Without what moves on between two questions."""
    if isinstance(document, dict):
        moving = {"freshness", "time", "now", "decisions"}
        return {name: _timeless(value) for name, value in document.items() if name not in moving}
    return [_timeless(item) for item in document] if isinstance(document, list) else document
