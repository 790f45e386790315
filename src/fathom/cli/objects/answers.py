"""Answers of an API server to requests about objects: the object, or what to tell the user."""

from __future__ import annotations

from fathom.cli.api_server import Answer, NoAnswerNow
from fathom.cli.problem import ANSWER_IS_NO, Problem

GOOD = frozenset({200, 201, 202})


class Refused(Problem):
    """The server refused the request; nothing was changed."""

    def __init__(self, message: str, *, code: int, reason: str = "") -> None:
        super().__init__(message, exit_code=ANSWER_IS_NO)
        self.code = code
        self.reason = reason


def done(status: int, answer: Answer, about: str) -> Answer:
    """The answer, if it is good. `about`: for servers that give no reason. Raises Problem."""
    if status in GOOD:
        return answer
    message = str(answer.get("message") or f"{about}: the API server answered with HTTP {status}")
    if status == 401:
        message = f"{message.rstrip('. ')}: check the user's credentials in the kubeconfig"
    if status == 429 or status >= 500:
        raise NoAnswerNow(message)
    raise Refused(message, code=status, reason=str(answer.get("reason") or ""))
