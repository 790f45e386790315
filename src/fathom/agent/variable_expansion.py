"""Expand `$(NAME)` in commands, arguments and variables of a spec. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fathom.model.objects import Obj, lookup

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")

# What Linux starts a program with at most: one word or variable (MAX_ARG_STRLEN), and all of them. A spec of
# a few kilobytes can expand to any size: each variable twice the one before.
WORD_CHARS_MAX = 128 << 10
TOTAL_CHARS_MAX = 6 << 20


class ExpandedTooLong(Exception):
    """The message says what is too long, as the rest of a sentence."""


def expand(text: str, env: Mapping[str, str]) -> str:
    """References to unknown variables stay as they are; `$$` is a `$`. Raises ExpandedTooLong."""
    parts: list[str] = []
    size, end = len(text), 0
    for match in _REFERENCE.finditer(text):
        value = "$" if match[1] == "$" else env.get(match[2], match[0])
        size += len(value) - len(match[0])
        if size > WORD_CHARS_MAX and size > len(text):
            raise ExpandedTooLong(f"is longer than {WORD_CHARS_MAX} characters when expanded")
        parts += (text[end : match.start()], value)
        end = match.end()
    return "".join((*parts, text[end:]))


def expand_all(words: Iterable[str], env: Mapping[str, str]) -> list[str]:
    """Raises ExpandedTooLong, also if they are too long together."""
    expanded, size = [], 0
    for word in words:
        expanded.append(expand(word, env))
        size += len(expanded[-1])
        if size > TOTAL_CHARS_MAX:
            raise ExpandedTooLong(f"has more than {TOTAL_CHARS_MAX} characters in all")
    return expanded


def with_words(probe: Obj, container: Obj) -> Obj:
    """Expand a probe's command with the variables whose values are in the container's spec itself: as kubelet
    does for probes, and not for hooks."""
    command = lookup(probe, "exec", "command")
    if not command:
        return probe
    env = {str(variable["name"]): str(variable.get("value") or "") for variable in container.get("env") or ()}
    try:
        return {**probe, "exec": {**probe["exec"], "command": expand_all(map(str, command), env)}}
    except ExpandedTooLong:  # No command can be that long: it fails as it is.
        return probe
