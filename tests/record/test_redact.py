"""Secrets are kept off tapes: single, listed, watched, and in the copies that kubectl leaves."""

from __future__ import annotations

import msgspec
import pytest

from fathom.model.well_known import LAST_APPLIED
from fathom.record.redact import secret_data

SECRET = {
    "kind": "Secret",
    "metadata": {"name": "a", "annotations": {LAST_APPLIED: '{"data":{"key":"c2VjcmV0"}}', "mine": "1"}},
    "data": {"key": "c2VjcmV0"},
    "stringData": {"word": "secret"},
    "type": "Opaque",
}
CLEAN = {
    "kind": "Secret",
    "metadata": {"name": "a", "annotations": {"mine": "1"}},
    "data": {"key": ""},
    "stringData": {"word": ""},
    "type": "Opaque",
}
encode = msgspec.json.encode


@pytest.mark.parametrize(
    ("payload", "clean"),
    [
        (encode(SECRET), encode(CLEAN)),
        (encode({"items": [SECRET, SECRET]}), encode({"items": [CLEAN, CLEAN]})),
        (
            encode({"type": "ADDED", "object": SECRET})
            + b"\n"
            + encode({"type": "BOOKMARK", "object": {}})
            + b"\n",
            encode({"type": "ADDED", "object": CLEAN})
            + b"\n"
            + encode({"type": "BOOKMARK", "object": {}})
            + b"\n",
        ),
        (b"", b""),
        (b"[1]", b"[1]"),
        (
            encode({"metadata": None, "data": "x", "items": None}),
            b'{"metadata":null,"data":"x","items":null}',
        ),
        (b"<html>c2VjcmV0</html>", b""),
        (b'{"data":{"key":"c2VjcmV0"', b""),
    ],
)
def test_what_a_secret_holds_is_taken_away(payload: bytes, clean: bytes) -> None:
    redactor = secret_data("/api/v1/namespaces/default/secrets?watch=true")
    assert redactor is not None
    assert redactor(payload) == clean


@pytest.mark.parametrize(
    ("target", "concerned"),
    [
        ("/api/v1/secrets", True),
        ("/api/v1/secrets?limit=500", True),
        ("/api/v1/namespaces/a/secrets/b", True),
        ("/api/v1/namespaces/a/pods", False),
        ("/api/v1/pods?labelSelector=secrets", False),
        ("/apis/example.com/v1/secrets", False),
    ],
)
def test_only_secrets_are_looked_into(target: str, concerned: bool) -> None:
    assert (secret_data(target) is not None) == concerned
