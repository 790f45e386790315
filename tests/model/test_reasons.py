"""The table of reasons: whole, without homonyms, and the same in docs/reasons.md."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from fathom.model import reasons
from fathom.model.reasons import (
    CONTAINER_BOUNDARIES,
    REASONS,
    container_boundary,
    is_rejection,
    refusal_boundary,
    remedy_for,
)
from fathom.schedule.decide.rules import FILTERS

ROOT = Path(__file__).parent.parent.parent
DOCS, SOURCE = ROOT / "docs" / "reasons.md", ROOT / "src" / "fathom"


def script(*words: str) -> int:
    main = runpy.run_path(str(ROOT / "script" / "reasons"))["main"]
    code: int = main(list(words))
    return code


def test_the_page_is_the_one_that_the_code_makes() -> None:
    """Else run `script/reasons`."""
    assert script("--check") == 0


def test_a_page_that_lacks_a_reason_or_a_rule_is_found_and_written_anew(tmp_path: Path) -> None:
    whole = DOCS.read_text().splitlines()
    for row in (f"| `{REASONS[-1].name}` |", f"| `{FILTERS[0].name}` |"):
        page = tmp_path / "page.md"
        page.write_text("\n".join(line for line in whole if not line.startswith(row)) + "\n")
        assert page.read_text() != DOCS.read_text()
        assert script("--check", str(page)) == 1
        assert script(str(page)) == 0
        assert page.read_text() == DOCS.read_text()


def test_every_reason_that_the_code_names_is_in_the_table() -> None:
    """As a constant, or with a name after the boundary: `gate/NAME`."""
    known = {one.name for one in REASONS}
    boundaries = "|".join(sorted({one.boundary for one in REASONS}))
    whole, begun = re.compile(rf"({boundaries})(/[a-z]+)?"), re.compile(rf"({boundaries})/")
    constants = {name for name in vars(reasons).values() if isinstance(name, str) and whole.fullmatch(name)}
    assert constants - known == set()
    named = {name.partition("/")[0] for name in known if re.search(r"/[A-Z]", name)}
    for path in sorted(SOURCE.rglob("controllers/progress/*.py")) + sorted(SOURCE.rglob("schedule/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "/" in node.value:
                assert not whole.fullmatch(node.value) or node.value in known, f"{path}: {node.value}"
            elif isinstance(node, ast.JoinedStr) and len(node.values) == 2:
                begin = ast.unparse(node.values[0]).strip("'")
                known_boundary = begin.removesuffix("/") in named
                assert not begun.fullmatch(begin) or known_boundary, f"{path}: {ast.unparse(node)}"


def test_each_reason_is_there_once_and_each_boundary_in_use_is_known() -> None:
    names = [one.name for one in REASONS]
    assert len(names) == len(set(names))
    known = {one.boundary for one in REASONS}
    assert known.issuperset(one.boundary for one in FILTERS)
    assert known.issuperset(CONTAINER_BOUNDARIES.values())


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [("capacity/ports", "FreePort"), ("quota/risk-zone-c", "RaiseQuota"), ("capacity", "AddCapacity"),
     ("license/cad", "")],
)  # fmt: skip
def test_a_remedy_is_that_of_the_reason_else_of_its_boundary(reason: str, remedy: str) -> None:
    assert remedy_for(reason) == remedy


@pytest.mark.parametrize(
    ("reason", "boundary"),
    [("ImagePullBackOff", "image"), ("CreateContainerConfigError", "config"), ("RunContainerError", "crash"),
     ("NoImageryServiceError", "start"), ("ContainerCreating", "start")],
)  # fmt: skip
def test_a_containers_reason_is_looked_up_and_not_read(reason: str, boundary: str) -> None:
    assert container_boundary(reason) == boundary


def test_a_refusal_is_the_quotas_where_the_server_names_it_as_the_cause() -> None:
    assert refusal_boundary(("QuotaExceeded",)) == "quota"
    assert refusal_boundary(("FieldValueForbidden",)) == refusal_boundary(()) == "admission"


def test_a_node_rejects_by_an_id() -> None:
    assert is_rejection("OutOfcpu")
    assert is_rejection("NodeAffinity")
    assert not is_rejection("DeadlineExceeded")
