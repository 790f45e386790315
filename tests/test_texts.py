"""No code decides by looking into a text that was written for people.

Reasons are data: ids, names and counts in fields. This lint finds code of the deciding and explaining
packages that takes a message, a verdict, a detail or a reason in words apart.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fathom"
PACKAGES = (
    "explain",
    "controllers",
    "schedule",
    "detect",
    "cli",
    "ask",
    "control",
    "demo",
    "gateway",
    "steer",
)
# In other packages a `text` may be anything that is read: what a user typed, a file, a format. These are not.
SENTENCES = frozenset({"message", "verdict", "detail", "why"})
TEXTS = SENTENCES | {"text", "texts"}
TAKING_APART = frozenset(
    {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "find", "index"}
)
MATCHING = frozenset({"search", "match", "fullmatch", "findall", "finditer"})
SAME_TEXT = frozenset({"strip", "lstrip", "rstrip", "lower", "upper", "replace", "splitlines", "casefold"})
# Files that may, each with its reason.
ALLOWED = {
    "explain/kubernetes_texts.py": "Kubernetes' own fixed texts, where other clients say it in no other way",
    "explain/why/what_if.py": "the text is what the user typed",
    "explain/timeline/decisions.py": "the first line of a message, for display; a list of verbs",
    "controllers/job/completion_indexes.py": "the text is Kubernetes' notation of a set of numbers",
    "controllers/deployment/plan_status.py": "Kubernetes' condition names its ReplicaSet nowhere else",
    "ask/views.py": "the text is a selector",
    "steer/report.py": "for display: a text in a cell of a table",
    "cli/object_reference.py": "the text is what the user typed",
    "cli/cluster/scheduler.py": "the text is what the user typed",
    "cli/ask/timeline.py": "the text is what the user typed",
    "cli/cluster/up.py": "the text is what the user typed",
    "controllers/overrides/facts.py": "the text is an annotation of ours, a list of ids",
    "model/decision.py": "the verdict is a list of verbs",
    "kube/definitions/protobuf.py": "the message is one of protobuf",
    "kube/definitions/protobuf_forms.py": "the message is one of protobuf",
    "kube/patch/refusal.py": "a refusal in kube-apiserver's words is said again in other words of it",
    "sim/checkers/placements.py": "what a decision says of preemption is what is judged",
    "sim/checkers/rights.py": "who refuses with 403 is said nowhere else: the authorizer or admission",
    "record/old_records.py": "records of earlier versions, which had only the text",
}


def taken_apart(source: str, texts: frozenset[str] = TEXTS) -> list[int]:
    """The lines that look into a text."""
    if not any(text in source for text in texts):
        return []  # Not worth to be parsed.
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr)]
    return sorted({node.lineno for node in nodes if _looks_into(node, texts)})


def _looks_into(node: ast.AST, texts: frozenset[str]) -> bool:
    if isinstance(node, ast.Compare):
        operators = zip(node.ops, node.comparators, strict=True)
        return any(
            isinstance(each, ast.In | ast.NotIn) and _is_text(right, texts) for each, right in operators
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in TAKING_APART:
        return _is_text(node.func.value, texts)
    return node.func.attr in MATCHING and any(_is_text(each, texts) for each in node.args)


def _is_text(node: ast.AST, texts: frozenset[str]) -> bool:
    """`message`, `each.message`, `condition["message"]`, `str(event.get("message") or "")`, `why.lower()`"""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in texts
        case ast.Subscript(slice=ast.Constant(value=key)):
            return key in texts
        case ast.BoolOp(values=values):
            return any(_is_text(each, texts) for each in values)
        case ast.Call(func=ast.Name(id="str" | "lookup"), args=arguments):
            return any(_is_text(each, texts) or _is_field(each, texts) for each in arguments)
        case ast.Call(func=ast.Attribute(attr="get"), args=[first, *_]):
            return _is_field(first, texts)
        case ast.Call(func=ast.Attribute(value=value, attr=attr)):
            return attr in SAME_TEXT and _is_text(value, texts)
    return False


def _is_field(node: ast.AST, texts: frozenset[str]) -> bool:
    return isinstance(node, ast.Constant) and node.value in texts


@pytest.mark.parametrize(
    "source",
    [
        'outcome.message.startswith("create ")',
        'message.partition("; held: ")[0]',
        'if "are unschedulable" in why: pass',
        "if name not in verdict: pass",
        'str(event.get("message") or "").endswith("gone")',
        'condition["message"].split()',
        "taint = message.rpartition(' ')[2]",
        'PREEMPTED_BY.search(str(event.get("message") or ""))',
        "re.match(COUNTS, verdict)",
        'cause.detail.lower().split(" ")',
        '"held" in str(lookup(obj, "status", "message"))',
        "[part for part in text.strip().split(';')]",
    ],
)
def test_the_lint_sees_code_that_takes_a_text_apart(source: str) -> None:
    assert taken_apart(source) == [1]


@pytest.mark.parametrize(
    "source",
    [
        'condition.get("reason") == "Held"',
        'reason.partition("/")[0]',
        "for line in text: pass",
        "field in entry.changed",
        'f"{message}; {why}"',
        'message.removeprefix("web: ")',  # For display: it cannot tell whether the text began so.
        'verdict == "bind"',
        'name.startswith("scheduler")',
        "any(each.name in reason.names for each in short)",
    ],
)
def test_the_lint_lets_ids_and_whole_texts_pass(source: str) -> None:
    assert taken_apart(source) == []


def test_nothing_decides_by_looking_into_a_text() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for package in PACKAGES
        for path in sorted((SOURCE / package).rglob("*.py"))
        if str(path.relative_to(SOURCE)) not in ALLOWED
        for line in taken_apart(path.read_text())
    ]
    assert found == [], "put what is decided by into a field: a reason, a name, a count"


def test_no_other_package_looks_into_a_message_either() -> None:
    """But for scenarios, which compare what a person reads with what happened."""
    found = [
        f"{name}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := str(path.relative_to(SOURCE))) not in ALLOWED
        if not name.startswith((*(f"{package}/" for package in PACKAGES), "sim/scenarios/"))
        for line in taken_apart(path.read_text(), SENTENCES)
    ]
    assert found == [], "put what is decided by into a field: a reason, a name, a count"


def test_every_exception_is_needed() -> None:
    assert [name for name in ALLOWED if not taken_apart((SOURCE / name).read_text())] == []
