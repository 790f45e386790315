"""Logging of a foreign process: what it configures is its own, and ends with it.

Loggers are global in an interpreter. Many programs configure them at each start: handlers would add up, and
`dictConfig` disables the loggers that are there, those of kopf for example, whose lines may be Events.
"""

from __future__ import annotations

import logging
from typing import Any

from fathom.sim.foreign.output import ProgramOutput

State = tuple[int, list[Any], bool, bool]


class LoggingState:
    """As it is when this is made; `restore` makes it so again, but for what packages set up when they were
    imported since: they are not imported again."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {name: _state(logger) for name, logger in _loggers().items()}
        self._disabled = logging.root.manager.disable
        self._logger_class, self._factory = logging.getLoggerClass(), logging.getLogRecordFactory()

    def restore(self) -> None:
        for name, logger in _loggers().items():
            level, handlers, propagate, disabled = self._states.get(name, (logger.level, [], True, False))
            kept = [handler for handler in logger.handlers if _is_of_a_package(handler)] if name else []
            logger.handlers[:] = [*handlers, *(handler for handler in kept if handler not in handlers)]
            logger.propagate, logger.disabled = propagate, disabled
            if not name.startswith(LEVELS_STAY):
                logger.level = level
        logging.setLoggerClass(self._logger_class)
        logging.setLogRecordFactory(self._factory)
        logging.disable(self._disabled)  # Clears what loggers remember of levels, too.


# kopf's levels are set by who runs it, for all kopf operators of a world.
LEVELS_STAY = "kopf"


def _is_of_a_package(handler: logging.Handler) -> bool:
    """And not one that a program made for its output."""
    return not isinstance(getattr(handler, "stream", None), ProgramOutput)


def _loggers() -> dict[str, logging.Logger]:
    named = logging.root.manager.loggerDict.items()
    return {"": logging.root} | {name: logger for name, logger in named if isinstance(logger, logging.Logger)}


def _state(logger: logging.Logger) -> State:
    return logger.level, list(logger.handlers), logger.propagate, logger.disabled
