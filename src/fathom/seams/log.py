"""Structured logs: one JSON object a line. Injected, so that a simulated process has a log of its own."""

from __future__ import annotations

from typing import Any, Protocol, TextIO

import msgspec

from fathom.model.times import micro_timestamp
from fathom.seams.outside import Clock
from fathom.terminal import escaped_json

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Log(Protocol):
    def info(self, event: str, **fields: Any) -> None: ...

    def warn(self, event: str, **fields: Any) -> None: ...

    def error(self, event: str, **fields: Any) -> None: ...


class JsonLog:
    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock

    def info(self, event: str, **fields: Any) -> None:
        self._write("info", event, fields)

    def warn(self, event: str, **fields: Any) -> None:
        self._write("warn", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        line = {"time": micro_timestamp(self._clock.now_ns()), "level": level, "event": event, **fields}
        try:
            self._stream.write(escaped_json(_encode(line).decode()) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # A full disk or a closed pipe must not stop the work that is being logged.


class NoLog:
    def info(self, event: str, **fields: Any) -> None: ...

    def warn(self, event: str, **fields: Any) -> None: ...

    def error(self, event: str, **fields: Any) -> None: ...
