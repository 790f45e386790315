"""How fresh a decision needs its snapshot to be, as data. `freshness` checks it. Pure."""

from __future__ import annotations

import msgspec


class AnyAge(msgspec.Struct, frozen=True, tag="any"):
    """Any age will do, once the kinds are listed."""


class OwnWrites(msgspec.Struct, frozen=True, tag="own-writes"):
    """All our own writes for this owner must be visible."""

    owner: str


class AtLeast(msgspec.Struct, frozen=True, tag="at-least"):
    """Each of these kinds must have reached a revision: that of a policy's activation, for example."""

    revisions: dict[str, int]


class NoOlderThan(msgspec.Struct, frozen=True, tag="no-older-than"):
    """These kinds must have been as new as their servers within so many seconds. No kinds: all of them."""

    seconds: float
    kinds: tuple[str, ...] = ()


Need = AnyAge | OwnWrites | AtLeast | NoOlderThan
