"""How fresh a decision needs its view to be, as data. Whether it is: `freshness`. Pure."""

from __future__ import annotations

import msgspec


class AnyAge(msgspec.Struct, frozen=True, tag="any"):
    """Whatever is known will do, once there is anything."""


class OwnWrites(msgspec.Struct, frozen=True, tag="own-writes"):
    """All that was written for this owner must be visible."""

    owner: str


class AtLeast(msgspec.Struct, frozen=True, tag="at-least"):
    """Each of these kinds must have reached a revision: that of a policy's activation, for example."""

    revisions: dict[str, int]


class NoOlderThan(msgspec.Struct, frozen=True, tag="no-older-than"):
    """The servers of these kinds must have been heard within so many seconds. No kinds: all of them."""

    seconds: float
    kinds: tuple[str, ...] = ()


Need = AnyAge | OwnWrites | AtLeast | NoOlderThan
