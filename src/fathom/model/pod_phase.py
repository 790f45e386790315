"""Terminal phases of a pod: it holds no resources and will not run again."""

from __future__ import annotations

from fathom.model.objects import Obj

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


def is_terminal(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL_PHASES
