"""Every command's page: what it says, that its examples parse, and what is made of it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.cli.main import make_app, run
from fathom.cli.pages.help_text import help_lines, is_heading
from fathom.cli.pages.manual import roff
from fathom.cli.pages.page import CommandPage, CommandSummary, Example, Option, OptionGroup, option_text
from fathom.cli.pages.reading import all_words, page_of, parts_of

APP = make_app()
PAGES = [page_of(APP, words) for words in all_words(APP)]
EXAMPLES = [(page, example.command) for page in PAGES for example in page.examples]
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_has_two_examples_and_says_what_is_printed(page: CommandPage) -> None:
    text = " ".join(page.paragraphs).lower()
    tells = bool(page.commands) or "print" in text or text.startswith(("say ", "make objects"))
    undescribed = [option.names for option in (*page.arguments, *page.options) if not option.about]
    assert (len(page.examples) >= 2, tells, undescribed) == (True, True, [])
    assert [each for each in page.commands if not each.about] == []


@pytest.mark.parametrize(
    ("page", "command"), EXAMPLES, ids=lambda each: each if isinstance(each, str) else ""
)
def test_every_example_is_a_command_that_the_parser_takes(page: CommandPage, command: str) -> None:
    """And it is one of this page's command, or of one below it."""
    words = shlex.split(command.partition(" > ")[0], comments=True)
    assert words.pop(0) in {"fathom", "kubectl"}
    words = words[1:] if words[0] == "fathom" else words
    parsed, *_ = APP.parse_args(words, exit_on_error=False, print_error=False)
    assert callable(parsed)
    assert tuple(words[: len(page.words)]) == page.words


def test_docstrings_are_paragraphs_and_examples() -> None:
    text = """Show things. Exits\nwith 1.\n\nPrints them.\n\nfathom a b  why\nfathom c \\\n  --d e\n"""
    assert parts_of(text) == (
        ("Show things. Exits with 1.", "Prints them."),
        (Example("fathom a b", "why"), Example("fathom c --d e")),
    )


PAGE = CommandPage(
    words=("override", "end"),
    paragraphs=("End an override now. With --wait, exits with 1 if something is left of it.",),
    examples=(
        Example("fathom override end x", "ends it"),
        Example("fathom override end x --wait --yes --timeout 10m"),
    ),
    arguments=(Option(names=("NAME",), value="TEXT", about="Name of the override.", required=True),),
    groups=(
        OptionGroup(
            "Options",
            (
                Option(names=("--timeout",), value="TEXT", about="How long to wait at most.", default="5m"),
                Option(names=("--yes", "-y"), value="", about="Do not ask for confirmation."),
                Option(
                    names=("--allow-reserved-capacity-class",), value="TEXT", about="A class.", required=True
                ),
                Option(
                    names=("--output", "-o"), value="json|yaml", about="Print it.", choices=("json", "yaml")
                ),
            ),
        ),
    ),
)


def test_help_is_laid_out_in_columns_that_fit() -> None:
    assert help_lines(PAGE, 50) == [
        "Usage: fathom override end",
        "    --allow-reserved-capacity-class TEXT NAME",
        "    [OPTIONS]",
        "",
        "End an override now. With --wait, exits with 1 if",
        "something is left of it.",
        "",
        "Arguments",
        "  NAME  Name of the override.",
        "",
        "Options",
        "  --timeout TEXT          How long to wait at",
        "                          most. Default: 5m.",
        "  -y, --yes               Do not ask for",
        "                          confirmation.",
        "  --allow-reserved-capacity-class TEXT",
        "                          A class. Required.",
        "  -o, --output json|yaml  Print it.",
        "",
        "Examples",
        "  fathom override end x",
        "      ends it",
        "  fathom override end x --wait --yes --timeout 10m",
        "",
        "Add --debug, or set FATHOM_DEBUG=1, to see the",
        "traceback of an error.",
    ]


def test_titles_of_sections_are_headings() -> None:
    lines = help_lines(PAGE, 80)
    assert [line for at, line in enumerate(lines) if is_heading(lines, at)] == [
        "Arguments",
        "Options",
        "Examples",
    ]


def test_a_page_of_commands_lists_them() -> None:
    page = CommandPage(
        words=("store",), paragraphs=("Keep.",), examples=(), commands=(CommandSummary("verify", "Check it"),)
    )
    assert (page.usage, help_lines(page, 80)[4:6]) == (
        "fathom store COMMAND",
        ["Commands", "  verify  Check it"],
    )


def test_an_argument_says_its_choices_and_a_flag_has_them_as_its_value() -> None:
    flag = Option(names=("--output",), value="a|b", about="Either.", choices=("a", "b"))
    argument = Option(names=("WHICH",), value="a|b", about="Either.", choices=("a", "b"))
    assert (option_text(flag), option_text(argument)) == ("Either.", "Either. One of a, b.")


def test_help_is_the_same_however_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    shown = set()
    for words in (["store", "verify", "--help"], ["help", "store", "verify"], ["store", "verify", "-h", "x"]):
        assert run(words) == 0
        shown.add(capsys.readouterr().out)
    assert len(shown) == 1
    assert shown.pop().startswith("Usage: fathom store verify [PATH]")


@pytest.mark.parametrize("words", [["nope", "--help"], ["store", "nope", "--help"], ["help", "nope"]])
def test_help_about_nothing_is_an_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert 'Unknown command "nope"' in capsys.readouterr().err


def test_the_reference_in_the_docs_is_current() -> None:
    """Else run `script/cli`."""
    command = [sys.executable, str(REPOSITORY / "script" / "cli"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_roff_shows_what_was_written() -> None:
    assert roff(r".a-b \ 'c' ~") == r"\&.a\-b \e \(aqc\(aq \(ti"


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man1")
    assert run(["man", str(directory)]) == 0
    return directory


def test_there_is_a_man_page_for_every_command(manuals: Path) -> None:
    wanted = {"fathom.1", *("-".join(("fathom", *page.words)) + ".1" for page in PAGES)}
    assert {file.name for file in manuals.iterdir()} == wanted


@pytest.mark.live
@pytest.mark.parametrize(
    "checker",
    [["mandoc", "-Tlint", "-Wwarning"], ["groff", "-man", "-Tutf8", "-ww", "-z"]],
    ids=lambda each: each[0],
)
def test_man_pages_are_without_warnings(checker: list[str], manuals: Path) -> None:
    if shutil.which(checker[0]) is None:
        pytest.skip(f"{checker[0]} is not installed")
    pages = sorted(map(str, manuals.iterdir()))
    done = subprocess.run([*checker, *pages], capture_output=True, text=True, check=False)
    # A date would make each build differ.
    told = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
    assert told == []
