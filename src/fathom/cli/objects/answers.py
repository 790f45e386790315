"""Answers of an API server to requests about objects: the object, or what to tell the user."""

from __future__ import annotations

from fathom.cli.api_server import Answer, NoAnswerNow, Refused

GOOD = frozenset({200, 201, 202})


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
