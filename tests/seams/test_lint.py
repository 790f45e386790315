"""Deciding code reaches for nothing but the seams: checked in its source, file by file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.seams.deciding import broken_rules

SOURCE = Path(__file__).parent.parent.parent / "src" / "fathom"

# What runs on a Domain, or is called from there. Rooms that do not exist yet are held to it from the start.
DECIDING = (
    "model/",
    "cache/",
    "control/",
    "controllers/",
    "schedule/",
    "explain/",
    "steer/",
    "client/api.py",
    "client/events.py",
    "client/outcomes.py",
    "client/settle.py",
)
# Wiring in a deciding room: it makes the outside, and hands it in.
WIRING = {
    "control/live.py": "runs a controller from a command line",
    "schedule/loop/live.py": "runs a scheduler from a command line",
}
# File -> the rules it may break, each with its reason.
ALLOWED: dict[str, dict[str, str]] = {
    "control/declared_fields.py": {
        "id()": "a key of the parts of objects, which it keeps alive; nothing is ordered by it",
    },
    "explain/why/commands.py": {"import of shlex": "quotes words for a shell, nothing of the outside"},
    "control/loop.py": {"import of traceback": "a stack is for the log, which only takes"},
    "control/process.py": {"import of importlib": "controllers are named in the birth, which is on the tape"},
    "explain/why_of/services.py": {"import of difflib": "compares texts, nothing of the outside"},
    "steer/conditions.py": {
        "import of cel_expr_python": "evaluates an expression over values; nothing of the outside"
    },
    "steer/runbook_library.py": {
        "import of importlib.resources": "reads the runbooks of the package, which are as much the code"
    },
    "schedule/decide/shape_scan.py": {"import of array": "a compact list of numbers, nothing of the outside"},
    "schedule/loop/user_rules.py": {
        "import of importlib.metadata": "which rules are installed is as much the code as the code itself"
    },
    "schedule/loop/decision_records.py": {
        "id()": "finds an array that it holds again; neither it nor an order by it gets into a record"
    },
}


def deciding_files() -> list[str]:
    names = [str(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py"))]
    return [name for name in names if name.startswith(DECIDING) and name not in WIRING]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import time", "import of time"),
        ("from time import monotonic", "import of time"),
        ("import os.path", "import of os.path"),
        ("import socket as s", "import of socket"),
        ("import threading", "import of threading"),
        ("from concurrent.futures import Future", "import of concurrent.futures"),
        ("import weakref", "import of weakref"),
        ("import aiohttp", "import of aiohttp"),
        ("import logging", "import of logging"),
        ("import asyncio\nasyncio.to_thread(f)", "asyncio.to_thread"),
        ("import asyncio as aio\naio.as_completed(x)", "asyncio.as_completed"),
        ("from asyncio import all_tasks", "asyncio.all_tasks"),
        ("import asyncio\nasyncio.open_connection()", "asyncio.open_connection"),
        ("import asyncio\nasyncio.run(x)", "asyncio.run"),
        ("import asyncio\nf = asyncio.Future()", "asyncio.Future(), use the loop's"),
        ("from asyncio import Task\nTask(x)", "Task(), use the loop's"),
        ("import random\nrandom.shuffle(x)", "random.shuffle"),
        ("from random import choice", "random.choice"),
        ("import random as r\nr.SystemRandom()", "random.SystemRandom"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
        ("key = id(x)", "id()"),
        ("slot = hash(name) % 8", "hash()"),
        ("open('x')", "open()"),
        ("for x in {1, 2}: ...", "iteration over a set"),
        ("[x for x in set(names)]", "iteration over a set"),
        ("names = set(a)\nfor x in names: ...", "iteration over a set"),
        ("def f(names: frozenset[str]):\n  return list(names)", "iteration over a set"),
        (
            "class A:\n  def f(self):\n    self.x: set[str] = make()\n  def g(self):\n    return [*self.x]",
            "iteration over a set",
        ),
        ("for x in a.keys() - b.keys(): ...", "iteration over a set"),
        ("text = ', '.join({x for x in y})", "iteration over a set"),
        ("done = set()\ndone.pop()", "iteration over a set"),
        ("x = dict.fromkeys(set(a).union(b))", "iteration over a set"),
        ("async def f():\n  yield 1", "async generator f"),
        ("from itertools import count\nnext_id = count(1).__next__", "state in a module"),
        ("from collections import deque\nseen = deque()", "state in a module"),
        ("def f():\n  global x\n  x = 1", "state in a module"),
    ],
)
def test_the_lint_sees(source: str, rule: str) -> None:
    assert [found.partition(": ")[2] for found in broken_rules(source)] == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def f(x: asyncio.Future[int]):\n  async with asyncio.timeout(1):\n    await x",
        "import random\ndef f(rng: random.Random) -> float:\n  return rng.random()",
        "import random\nrng = random.Random(7)",
        "import uuid\nuuid.uuid5(uuid.UUID(int=1), 'x')",
        "for x in sorted({1, 2}): ...",
        "found = {x for x in y}\nreturned = len(found) + (3 in found)",
        "names = set(a)\nif names & set(b): ...",
        "for x in {'a': 1}: ...",
        "done.pop('x')",
        "from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def f():\n  yield 1",
        "async def f():\n  def g():\n    yield 1\n  return list(g())",
        "from collections import deque\nclass A:\n  def __init__(self):\n    self.x = deque()",
        "class A:\n  def __hash__(self):\n    return hash(self.x)",
        "from urllib.parse import quote\nfrom fathom.seams.seam import Ask",
    ],
)
def test_the_lint_lets_pass(source: str) -> None:
    assert broken_rules(source) == []


@pytest.mark.parametrize("name", deciding_files())
def test_deciding_code_keeps_to_the_seams(name: str) -> None:
    allowed = ALLOWED.get(name, {})
    found = broken_rules((SOURCE / name).read_text())
    assert [each for each in found if each.partition(": ")[2] not in allowed] == []


def test_nothing_is_allowed_that_nobody_does() -> None:
    idle = [
        f"{name}: {rule}"
        for name, rules in ALLOWED.items()
        for rule in rules
        if rule not in {found.partition(": ")[2] for found in broken_rules((SOURCE / name).read_text())}
    ]
    assert idle == []
