"""Rules for keys and commits that hold for every engine, and where a prefix ends.

Keys order by code point, which is also the order of their UTF-8 bytes: all engines agree on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.store.protocol import BadCommit, Expect, Write

RAISE_KEY = "/fathom/revision-raised"  # Written only to raise the revision. Not in the API's registry.

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def prefix_end(prefix: str) -> str | None:
    """The smallest string greater than every string with the prefix; None where there is none."""
    stem = prefix.rstrip(chr(_LAST))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    if following in _SURROGATES:  # Surrogates are no characters and have no encoding.
        following = _SURROGATES.stop
    return stem[:-1] + chr(following)


def range_start(prefix: str, after: str) -> str:
    """The first key that may be in the answer: keys start with `prefix` and are greater than `after`."""
    return f"{after}\0" if after >= prefix else prefix


def check_commit(preconditions: Sequence[Expect], writes: Sequence[Write]) -> None:
    for item in (*preconditions, *writes):
        if not item.key:
            raise BadCommit("a key must not be empty")
        if not item.key.isascii():
            _check_encodable(item.key)
    if len(writes) > 1 and len({write.key for write in writes}) < len(writes):
        raise BadCommit(f"a commit writes a key twice: {sorted(write.key for write in writes)}")


def _check_encodable(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        raise BadCommit(f"a key must be encodable as UTF-8: {key!r}") from None
