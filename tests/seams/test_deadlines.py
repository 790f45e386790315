"""An answer and its deadline may come in one input: a process that was paused hears both at once."""

from __future__ import annotations

from fathom.seams.domain import Domain
from fathom.seams.seam import Ask, Input, Reply, Seam


class Deaf:
    def start(self, number: int, ask: Ask, *, stream: bool) -> None: ...

    def cancel(self, number: int) -> None: ...


def test_an_answer_that_comes_with_its_deadline_counts_and_nothing_fails() -> None:
    domain = Domain()
    seam = Seam(domain, Deaf())
    answers: list[Reply] = []

    async def ask() -> None:
        answers.append(await seam.request(Ask("GET", "/"), timeout_s=2))

    domain.input(0, lambda: domain.create_task(ask()))
    domain.input(40_000_000_000, seam.deliver, Input.REPLY, 1, 200, b"here")
    assert answers == [Reply(200, b"here")]
    assert domain.failures == []
