"""Expand `$(NAME)` in commands, arguments and variables of a spec. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fathom.model.objects import Obj, lookup

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")


def expand(text: str, env: Mapping[str, str]) -> str:
    """References to unknown variables stay as they are; `$$` is a `$`."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return env.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def with_words(probe: Obj, container: Obj) -> Obj:
    """Expand a probe's command with the variables whose values are in the container's spec itself: as kubelet
    does for probes, and not for hooks."""
    command = lookup(probe, "exec", "command")
    if not command:
        return probe
    env = {str(variable["name"]): str(variable.get("value") or "") for variable in container.get("env") or ()}
    return {**probe, "exec": {**probe["exec"], "command": [expand(str(word), env) for word in command]}}
