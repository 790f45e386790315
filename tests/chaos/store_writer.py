"""The victim: writes as fast as it can, compacts behind itself, and says what was acknowledged.

Each commit puts or deletes both keys of a pair. A line `number revision slot` on standard output follows the
acknowledgement; slots that were deleted are negative. It runs until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import uvloop

from fathom.model.body import Body
from fathom.store.protocol import Committed, Delete, Put, Write
from fathom.store.sqlite import SqliteStore

WRITERS = 16
SLOTS_EACH = 3  # No two writers write the same slot, so every commit changes something.
SLOTS = range(1, 1 + WRITERS * SLOTS_EACH)
SIDES = ("left", "right")


async def write(store: SqliteStore, rng: random.Random, slots: range, first: int) -> None:
    number = first
    while True:
        number += 1
        slot = rng.choice(slots)
        keys = [f"/{side}/{slot}" for side in SIDES]
        gone = rng.random() < 0.2 and await store.get(keys[0]) is not None
        body = Body(obj={"number": number, "filling": "x" * rng.choice((10, 1000, 9000))})
        writes: list[Write] = [Delete(key) if gone else Put(key, body) for key in keys]
        outcome = await store.commit((), writes)
        assert isinstance(outcome, Committed)
        os.write(1, f"{number} {outcome.revision} {-slot if gone else slot}\n".encode())


async def compact(store: SqliteStore, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(rng.random() * 0.05)
        # What was never acknowledged is not compacted, so that it can be looked at after death.
        await store.compact(max(await store.revision() - WRITERS - rng.randrange(300), 1))


async def main(data_dir: Path, seed: str) -> None:
    store = SqliteStore.open(data_dir)
    start = await store.revision()
    writers = [
        write(
            store,
            random.Random(f"{seed}/{n}"),
            SLOTS[n * SLOTS_EACH : (n + 1) * SLOTS_EACH],
            start * 1000 + n * 1_000_000,
        )
        for n in range(WRITERS)
    ]
    await asyncio.gather(*writers, compact(store, random.Random(seed)))


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), sys.argv[2]))
