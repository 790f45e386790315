"""Rules of the page's files that no browser enforces."""

from __future__ import annotations

import itertools
import re

from fathom.web.files import NAME, STATIC

# Text of the cluster must never be parsed as markup or run.
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTMLUnsafe"
    r"|createContextualFragment|DOMParser|srcdoc|javascript:|\.cssText"
)
INLINE = re.compile(r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son[a-z]+=")
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg)")


def texts() -> dict[str, str]:
    return {
        str(path.relative_to(STATIC)): path.read_text()
        for path in sorted(STATIC.rglob("*"))
        if path.is_file()
    }


def found(pattern: re.Pattern[str]) -> dict[str, list[str]]:
    return {name: hits for name, text in texts().items() if (hits := pattern.findall(text))}


def test_no_script_makes_markup_of_text() -> None:
    assert found(MARKUP) == {}


def test_there_is_no_inline_script_or_style() -> None:
    assert {name: hits for name, hits in found(INLINE).items() if name.endswith(".html")} == {}


def test_nothing_names_another_server() -> None:
    assert found(ELSEWHERE) == {}


def test_every_file_has_a_name_that_is_served() -> None:
    assert [name for name in texts() if not NAME.fullmatch(name)] == []


def test_every_view_of_the_table_of_routes_exists() -> None:
    routes = re.findall(r'module: "\./(views/[a-z_]+\.js)"', texts()["router.js"])
    assert routes != []
    assert [view for view in routes if view not in texts()] == []


# Every page loads every style sheet: what one gives to a class, elements of other pages have too.
RULE = re.compile(r"([^{}]+)\{[^{}]*\}")
CLASS = re.compile(r"\.([a-z][a-z-]*)")


def selectors(name: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", texts()[name], flags=re.DOTALL)
    return [each.strip() for rule in RULE.findall(text) for each in rule.split(",")]


def test_no_style_sheet_gives_its_looks_to_classes_of_another() -> None:
    sheets = {name: selectors(name) for name in texts() if name.endswith(".css")}
    alone = {name: {each[1:] for each in all_ if CLASS.fullmatch(each)} for name, all_ in sheets.items()}
    named = {name: {found for each in all_ for found in CLASS.findall(each)} for name, all_ in sheets.items()}
    own = set(sheets) - {"style.css"}
    assert {
        (giver, taker): both
        for giver, taker in itertools.permutations(sheets, 2)
        if giver in own and (both := alone[giver] & named[taker])
    } == {}
