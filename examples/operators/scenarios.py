"""The operators of this folder as scenarios, for `fathom sim`:

fathom sim explore scenarios.py:greeter-twice --seeds 0..20 --first
fathom sim check-determinism scenarios.py:blocking-greeter --seeds 0..50
"""

from __future__ import annotations

from fathom.sim.testing import OperatorTest, operator_scenario


async def _cards(operator: OperatorTest, file: str) -> None:
    await operator.apply("greeting-crd.yaml")
    operator.run(file)
    await operator.apply("hello.yaml")
    await operator.recover()


@operator_scenario()
async def greeter(operator: OperatorTest) -> None:
    """Each Greeting gets its cards, whatever goes wrong."""
    await _cards(operator, "greeter.py")


@operator_scenario()
async def greeter_twice(operator: OperatorTest) -> None:
    """Its cards have generated names: a repeated create makes one card too many."""
    await _cards(operator, "greeter_twice.py")


@operator_scenario()
async def blocking_greeter(operator: OperatorTest) -> None:
    """The same, with handlers that block in threads."""
    await _cards(operator, "blocking_greeter.py")


@operator_scenario()
async def blocking_greeter_twice(operator: OperatorTest) -> None:
    """Generated names again."""
    await _cards(operator, "blocking_greeter_twice.py")
