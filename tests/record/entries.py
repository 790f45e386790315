"""Short builders of audit entries."""

from __future__ import annotations

from typing import Any

from fathom.model.audit import AuditEntry


def entry(number: int = 1, **fields: Any) -> AuditEntry:
    """A write of the deployment default/web that succeeded, at second `number`."""
    known: dict[str, Any] = {
        "id": f"id-{number}",
        "time": f"2026-01-01T00:00:{number:02}.000000Z",
        "user": "jane",
        "verb": "update",
        "resource": "deployments.apps",
        "namespace": "default",
        "name": "web",
        "code": 200,
        "revision": 100 + number,
    }
    return AuditEntry(**{**known, **fields})


class StoppedClock:
    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ns(self) -> int:
        return self.ns


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warn = error = info
