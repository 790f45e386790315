"""How much a client may send before it is answered, and how much all clients together: numbers and counters.

Memory that a connection takes before anybody is known is bounded three times: by the size of one head, by
what all unfinished heads hold, and by what all small bodies hold, whose senders are looked at last.
Whoever sends more is authenticated by the head alone, before the body is read. The reasons are in
docs/decisions/0022.
"""

from __future__ import annotations

# The request line: selectors are the longest part of it. Longer ones are a 414.
URL_BYTES_MAX = 64 << 10
# Of one head in all. Go's server takes a megabyte; the longest real ones hold a token and some groups.
HEAD_BYTES_MAX = 256 << 10
HEADERS_MAX = 512
# As kube-apiserver waits for a head.
HEAD_S_MAX = 32.0

# Bytes on the wire for each of a body's: chunks of one have six. What follows the last chunk counts too.
WIRE_BYTES_FACTOR = 8

# Of all heads that are not complete.
HEADS_BYTES_MAX = 64 << 20
# A longer body is read only once its sender is known.
SMALL_BODY_BYTES_MAX = 16 << 10
# Of all small ones that are read or served. When that is used up, their senders are looked at first as well.
SMALL_BODIES_BYTES_MAX = 16 << 20
# Of all others that are read or served: a hundred of the largest.
BODIES_BYTES_MAX = 320 << 20
# Of all answers that clients do not read. Beyond, the connections that have not read for longest are cut off,
# if that is so long that a busy network cannot be the cause.
UNREAD_BYTES_MAX = 256 << 20
UNREAD_S_MIN = 2.0

# Requests of one connection that were read ahead. The rest of what came waits as bytes.
PIPELINED_MAX = 64
# So much is parsed at a time: at most some two hundred requests are in it, or a piece of a body.
PARSED_BYTES = 4 << 10
PARSED_BODY_BYTES = 64 << 10
# A refused body is read on and thrown away for so long: who is still sending would not see the answer.
LINGER_S = 5.0
# So many requests in a row are answered for one connection before the others have their turn.
TURN_REQUESTS = 16


class ByteBudget:
    """Bytes that are held by all connections for one purpose."""

    __slots__ = ("limit", "refused", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.refused = 0  # How often there was no room.

    def take(self, count: int) -> bool:
        """Whether there is room; if so, it is taken."""
        if self.used + count > self.limit:
            self.refused += 1
            return False
        self.used += count
        return True

    def take_anyway(self, count: int) -> None:
        """For what is held already."""
        self.used += count

    def give(self, count: int) -> None:
        self.used -= count


class ByteBudgets:
    """Of one server."""

    def __init__(self) -> None:
        self.heads = ByteBudget(HEADS_BYTES_MAX)
        self.small = ByteBudget(SMALL_BODIES_BYTES_MAX)
        self.bodies = ByteBudget(BODIES_BYTES_MAX)
        self.unread = ByteBudget(UNREAD_BYTES_MAX)
