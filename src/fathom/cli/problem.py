"""The error that a command raises when it cannot do what was asked: one line and an exit code."""

from __future__ import annotations

# 0 is success. These two are the only others (and 130 after Ctrl-C, as in shells).
ANSWER_IS_NO = 1
USAGE_OR_ENVIRONMENT = 2
INTERRUPTED = 130


class Problem(Exception):
    """Its message is shown to the user of the command."""

    def __init__(self, message: str, *, exit_code: int = USAGE_OR_ENVIRONMENT) -> None:
        super().__init__(message)
        self.exit_code = exit_code
