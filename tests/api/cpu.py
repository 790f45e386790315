"""CPU time of what is tested, without what this process spends on collecting garbage: in a process that has
run thousands of tests one collection takes a second, and a server's heap is frozen when it starts."""

from __future__ import annotations

import gc
import time


class _Collections:
    """How long all of them took."""

    def __init__(self) -> None:
        self.total_s = self._started_s = 0.0

    def note(self, phase: str, _: dict[str, int]) -> None:
        now_s = time.process_time()
        if phase == "start":
            self._started_s = now_s
        else:
            self.total_s += now_s - self._started_s


_COLLECTIONS = _Collections()
gc.callbacks.append(_COLLECTIONS.note)


def process_cpu_s() -> float:
    return time.process_time() - _COLLECTIONS.total_s
