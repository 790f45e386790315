"""Remembers the reason of each owner's last recorded decision: the same reason is not recorded again.

Keys that wait are looked at again and again. A journal that had every such pass would hold little else, and a
reader wants to know since when the reason is what it is. Nothing is decided from this memory.
"""

from __future__ import annotations

import re
import zlib

# One of 40 bytes for each object that a controller has decided about. Beyond it the longest unchanged reason
# is forgotten, and recorded once more when it is met again.
OWNERS_MAX = 100_000

# A number that stands alone: a count, a share, a time. Digits in a name ('web-7f2', 'node-1', 'v5') stay.
_number = re.compile(r"(?<![\w/.-])\d[\w.:%-]*").sub


class RecordedReasons:
    def __init__(self, *, owners_max: int = OWNERS_MAX) -> None:
        self._owners_max = owners_max
        self._last: dict[str, int] = {}  # Owner -> checksum of its reason; the oldest change first.

    def __len__(self) -> int:
        return len(self._last)

    def changes(self, owner: str, reason: str) -> bool:
        """Remembers the reason. False if it is the one remembered already, whatever its numbers."""
        checksum = zlib.crc32(_number("#", reason).encode(errors="replace"))
        if self._last.get(owner) == checksum:
            return False
        self._last.pop(owner, None)
        self._last[owner] = checksum
        while len(self._last) > self._owners_max:
            del self._last[next(iter(self._last))]
        return True

    def forget(self, owner: str) -> None:
        self._last.pop(owner, None)
