"""Numbers and counters that limit what one client, and all clients together, may send before an answer.

Memory that connections take before their senders are authenticated is bounded three times: by the size of one
head, by the bytes of all unfinished heads, and by the bytes of all small bodies, whose senders are
authenticated last. The sender of a larger body is authenticated by the head alone, before the body is read.
The reasons are in docs/decisions/0022.
"""

from __future__ import annotations

# The request line: selectors are the longest part of it. A longer one gets a 414.
URL_BYTES_MAX = 64 << 10
# Of one whole head. Go's server takes a megabyte; the longest real heads hold a token and some groups.
HEAD_BYTES_MAX = 256 << 10
HEADERS_MAX = 512
# kube-apiserver waits this long for a head.
HEAD_S_MAX = 32.0

# Bytes on the wire per byte of a body: a chunk of one byte takes six. Bytes after the last chunk count too.
WIRE_BYTES_FACTOR = 8

# Of all incomplete heads together.
HEADS_BYTES_MAX = 64 << 20
# A longer body is read only after its sender is authenticated.
SMALL_BODY_BYTES_MAX = 16 << 10
# Of all small bodies being read or served. When that is used up, their senders are authenticated first as
# well.
SMALL_BODIES_BYTES_MAX = 16 << 20
# Of all larger bodies being read or served: a hundred of the largest.
BODIES_BYTES_MAX = 320 << 20
# Of all answers that clients do not read. Beyond this, the connections that have not read for longest are
# closed, if that is so long that a busy network cannot be the cause.
UNREAD_BYTES_MAX = 256 << 20
UNREAD_S_MIN = 2.0

# Requests of one connection that are parsed ahead. The rest waits as bytes.
PIPELINED_MAX = 64
# Bytes parsed at a time: they contain at most some two hundred requests, or a piece of a body.
PARSED_BYTES = 4 << 10
PARSED_BODY_BYTES = 64 << 10
# A refused body is read and dropped for this long: a client that is still sending would not see the answer.
LINGER_S = 5.0
# Requests of one connection that are answered in a row before other connections have their turn.
TURN_REQUESTS = 16


class ByteBudget:
    """Bytes that all connections together hold for one purpose."""

    __slots__ = ("limit", "refused", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.refused = 0  # How often the budget was exhausted.

    def take(self, count: int) -> bool:
        """Take the bytes if they are available; return whether they were."""
        if self.used + count > self.limit:
            self.refused += 1
            return False
        self.used += count
        return True

    def take_anyway(self, count: int) -> None:
        """Count bytes that are already held, even beyond the limit."""
        self.used += count

    def give(self, count: int) -> None:
        self.used -= count


class ByteBudgets:
    """The byte budgets of one server."""

    def __init__(self) -> None:
        self.heads = ByteBudget(HEADS_BYTES_MAX)
        self.small = ByteBudget(SMALL_BODIES_BYTES_MAX)
        self.bodies = ByteBudget(BODIES_BYTES_MAX)
        self.unread = ByteBudget(UNREAD_BYTES_MAX)
