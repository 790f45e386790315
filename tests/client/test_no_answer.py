"""What is said of an API server that cannot be reached."""

from __future__ import annotations

import errno
import ssl

import pytest

from fathom.client.no_answer import WHAT_TO_DO, no_answer_text

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)")


class Wrapped(OSError):
    """As aiohttp wraps the error of a socket."""

    def __init__(self) -> None:
        super().__init__("Cannot connect to host 127.0.0.1:9 ssl:default")
        self.os_error = REFUSED


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (REFUSED, "Connection refused"),
        (Wrapped(), "Connection refused"),
        (ssl.SSLError(1, "certificate verify failed"), "certificate verify failed"),
        (ValueError("a bad answer"), "a bad answer"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_cause_is_in_the_words_of_the_system(error: Exception, why: str) -> None:
    assert no_answer_text("https://h:1", error) == f"https://h:1 does not answer ({why}): {WHAT_TO_DO}"
