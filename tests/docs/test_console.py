"""How pages with commands are read and compared: see console.py."""

from __future__ import annotations

import pytest
from tests.docs.console import Shown, Step, matches, shown, steps

PAGE = """# A page

```console
$ fathom get pods   # exit code 1
NAME    AGE
web-1   2s
$ cat <<END
> a
>
> END
a
```

<!-- test: keeps running -->
```console
$ fathom up
ready
```

```sh
not typed
```

<!-- test: not run: needs a cluster -->
```sh
nor this
```
"""


def test_commands_outputs_codes_and_notes_are_read_from_a_page() -> None:
    assert steps(PAGE) == [
        Step("fathom get pods   # exit code 1", ("NAME    AGE", "web-1   2s"), 1, 4, ""),
        Step("cat <<END\na\n\nEND", ("a",), 0, 7, ""),
        Step("fathom up", ("ready",), 0, 16, "keeps running"),
    ]


def test_blocks_that_are_not_typed_have_a_note_or_none() -> None:
    assert shown(PAGE) == [
        Shown(20, "", "not typed\n"),
        Shown(25, "not run: needs a cluster", "nor this\n"),
    ]


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        (("web  Running  2s",), "web   Running   1m3s\n"),
        (("create  1,001/s  p50 2,711 ms  95 MB",), "create  9/s  p50  0.5 ms  1.5 MB\n"),
        (("status 48227c87 of 9239f398effb4429814ffa45ee59076f",), f"status b21250ec of {'0' * 32}\n"),
        (("at 2026-11-17T12:00:00Z by ID 8536e02b-a798",), "at 2026-01-01T01:02:03.4Z by ID 11111111-abcd\n"),
        (("…", "last"), "one\n\ntwo\nlast\n"),
        (("Change: lower cpu to … (the owner)",), "Change: lower cpu to 666 (the owner)\n"),
        ((), "\n"),
    ],
)
def test_what_differs_from_run_to_run_is_not_compared(expected: tuple[str, ...], printed: str) -> None:
    assert matches(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        (("3 of 3 replicas",), "2 of 3 replicas\n"),
        (("one",), "one\ntwo\n"),
        (("default",), "facade00\n"),
        (("one", "two"), "one\n"),
        (("one",), ""),
        ((), "one\n"),
    ],
)
def test_all_else_is_compared(expected: tuple[str, ...], printed: str) -> None:
    assert not matches(expected, printed)


def test_of_what_keeps_running_only_the_beginning_is_compared() -> None:
    assert matches(("ready",), "ready\nmore\n", begins=True)
    assert not matches(("ready",), "not ready\n", begins=True)
