"""The time of the running loop: monotonic; in a Domain, the virtual or recorded time."""

from __future__ import annotations

import asyncio


def loop_now_s() -> float:
    return asyncio.get_running_loop().time()


def loop_now_ns() -> int:
    return round(asyncio.get_running_loop().time() * 1e9)
