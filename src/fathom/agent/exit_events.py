"""The Event about a container that ended with an error: its reason and its message. Pure."""

from __future__ import annotations

from fathom.agent.runtime import Exit
from fathom.model.reasons import MEMORY_REFUSED, OOM_KILLED

BY_MEMORY = {
    OOM_KILLED: "was killed because it used more memory than its limit",
    MEMORY_REFUSED: "ended because it was refused memory beyond its limit",
}


def event_of_exit(container: str, ended: Exit) -> tuple[str, str]:
    """An operator who reads Events must see that memory was the cause: code 137 alone does not say so."""
    cause = BY_MEMORY.get(ended.reason)
    if cause is None:
        return "Exited", f"{container} ended with code {ended.code}: {ended.message or 'see its log'}"
    detail = f": {ended.message}" if ended.message else ""
    return ended.reason, f"Container {container} {cause}, with code {ended.code}{detail}"
