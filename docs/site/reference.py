"""The pages that `script/reference` writes: PAGES names each, and the function that makes its text."""

import importlib
import json
import pkgutil
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fields import OF_EVERY_OBJECT, cell, rows, table
from json_outputs import DOCUMENTS
from words import OF_OUTPUTS

import fathom.sim.checkers
from fathom.kinds.all import KINDS
from fathom.sim.checkers import at_home, everywhere
from fathom.sim.world.invariants import Checker, standard

MADE = "`script/reference` makes this page from the code, and a test compares them."
PAGES = {"kind-fields.md": "kind_fields", "invariants.md": "invariants", "json.md": "json_outputs"}


def kind_fields():
    lines = [
        "# Fields of the kinds",
        "",
        *paragraph(f"""Every field of the kinds of `fathom.dev/v1alpha1`, beside `apiVersion`, `kind` and
            `metadata`. {MADE} [Kinds](kinds.md) has an example of each, and says who writes and
            reads it."""),
    ]
    for kind in sorted(KINDS, key=lambda kind: kind.kind):
        lines += ["", f"## {kind.kind}", "", about(kind), "", *table(rows(kind.shape, skip=OF_EVERY_OBJECT))]
    return text_of(lines)


def about(kind):
    words = [f"`{kind.plural}`", *(f"`{name}`" for name in kind.short_names)]
    place = "In a namespace" if kind.namespaced else "Of the whole cluster"
    kept = "stored" if kind.stored else f"answered and never stored ({', '.join(kind.verbs)})"
    return f"{kind.about} {', '.join(words)}. {place}, {kept}."


def invariants():
    lines = [
        "# Invariants",
        "",
        *paragraph(f"""What must be true in every run of the [simulator](simulation.md), after every commit
            or when the cluster has come to rest. A scenario fails as soon as one is broken.
            {MADE}"""),
    ]
    for title, checkers in checker_groups().items():
        lines += ["", f"## {title}", "", "| invariant | what is checked |", "| --- | --- |"]
        lines += [f"| {cell(checker.name)} | {cell(checker.__doc__ or '')} |" for checker in checkers]
    return text_of(lines)


def checker_groups():
    """Heading -> checkers, each once."""
    in_any = [type(checker) for checker in (*standard(), *everywhere())]
    at_fathom = [type(checker) for checker in at_home() if type(checker) not in in_any]
    of_scenarios = [each for each in all_checkers() if each not in in_any and each not in at_fathom]
    return {
        "In every world, those of your own controllers too": in_any,
        "In fathom's own scenarios": at_fathom,
        "In the scenarios that they are about": of_scenarios,
    }


def all_checkers():
    for module in pkgutil.iter_modules(fathom.sim.checkers.__path__):
        importlib.import_module(f"fathom.sim.checkers.{module.name}")
    found = [
        each for each in below(Checker) if each.name and each.__module__.startswith("fathom.sim.checkers.")
    ]
    return sorted(found, key=lambda checker: (checker.name, checker.__qualname__))


def below(kind):
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


def json_outputs():
    lines = [
        "# JSON outputs",
        "",
        *paragraph(f"""Commands that print one JSON document for programs, with `-o json` or `--json`.
            **The names are stable**: fields may be added, but no field is renamed, removed or
            changes its meaning within an API version. Times are RFC 3339, in UTC. A path with
            `[]` is of each item of a list, one with `.*` of each value of a map. Fields that
            are not known are `null`, `0` or empty. {MADE}"""),
    ]
    shown = []
    for document in DOCUMENTS:
        lines += ["", f"## {document.title}", "", *paragraph(document.about)]
        for shape in document.shapes:
            named = [f"`{shape.__name__}`:", ""] if len(document.shapes) > 1 else []
            lines += ["", *named, *table(rows(shape, above=tuple(shown), general=OF_OUTPUTS))]
            shown.append(shape)
        if document.example is not None:
            lines += ["", "```json", json.dumps(document.example, indent=2, ensure_ascii=False), "```"]
    return text_of(lines)


def paragraph(text):
    return textwrap.wrap(" ".join(text.split()), 130, break_long_words=False, break_on_hyphens=False)


def text_of(lines):
    return "\n".join(lines) + "\n"
