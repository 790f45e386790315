"""What a shell may complete: `fathom __complete WORD…`, which the scripts of `fathom completion` call.

It prints candidates, one in a line, each with what it is after a tab; then a line with what the shell should
do with them, as kubectl's own completion does: `:4`. So kubectl can call it too: `kubectl_complete-fathom`.
A shell waits for it at each key: it asks the API server at most three times, and says nothing if something
fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fathom.cli.commands import FRONT_PAGE
from fathom.terminal import say_exactly

if TYPE_CHECKING:
    from fathom.cli.pages.page import CommandPage

Candidate = tuple[str, str]  # And what it is.

# What to do with candidates, as cobra numbers it. Files are offered only where a path is wanted.
FILES, NO_SPACE, NO_FILES = 0, 2, 4


class Candidates(msgspec.Struct, frozen=True):
    found: tuple[Candidate, ...] = ()
    directive: int = NO_FILES


def complete(words: Sequence[str]) -> int:
    """Print the candidates for the last of these words."""
    try:
        candidates = candidates_for(list(words) or [""])
    except Exception:  # A shell has no place for errors.
        candidates = Candidates()
    lines = [f"{value}\t{about}" if about else value for value, about in candidates.found]
    say_exactly("".join(f"{line}\n" for line in (*lines, f":{candidates.directive}")))
    return 0


def candidates_for(words: list[str]) -> Candidates:
    typed = words[-1]
    if len(words) == 1:  # Without the parser, which takes longer than all of this.
        listed = [(each.name, each.summary) for group in FRONT_PAGE.values() for each in group]
        return Candidates(tuple(each for each in listed if each[0].startswith(typed)))
    from fathom.cli.main import command_words, make_app  # noqa: PLC0415
    from fathom.cli.pages.reading import page_of  # noqa: PLC0415

    app = make_app()
    command = command_words(app, words[:-1])
    if command is None:
        return Candidates()
    page = page_of(app, command)
    if page.commands:
        listed = [(each.name, each.about) for each in page.commands]
        return Candidates(tuple(each for each in listed if each[0].startswith(typed)))
    return _of_command(page, words[len(command) :])


def _of_command(page: CommandPage, words: list[str]) -> Candidates:
    from fathom.cli.complete_names import names_for  # noqa: PLC0415  # Only where a value is wanted.
    from fathom.cli.pages.completing import flag_candidates, slot_of  # noqa: PLC0415

    slot = slot_of(page, words)
    if slot.is_flag:
        return Candidates(tuple(flag_candidates(page, slot.typed)))
    if slot.option is None:
        return Candidates()
    if slot.option.choices:
        candidates = [(_without_example(choice), "") for choice in slot.option.choices]
    elif slot.option.is_path:
        return Candidates(directive=FILES)
    else:
        candidates = names_for(page, slot, words)
    chosen = tuple(
        (slot.prefix + value, about) for value, about in candidates if value.startswith(slot.typed)
    )
    unfinished = bool(chosen) and all(value.endswith(("/", "=")) for value, _ in chosen)
    return Candidates(chosen, NO_FILES | (NO_SPACE if unfinished else 0))


def _without_example(choice: str) -> str:
    """'jsonpath=' of 'jsonpath=TEMPLATE'."""
    name, equals, _ = choice.partition("=")
    return name + equals
