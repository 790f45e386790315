"""Fails, to show the report: pytest test_greeter_twice.py --fathom-seeds 0..20 --fathom-shrink"""

from fathom.sim.testing import OperatorTest


async def test_every_greeting_gets_its_cards(operator: OperatorTest) -> None:
    await operator.apply("greeting-crd.yaml")
    operator.run("greeter_twice.py")
    await operator.apply("hello.yaml")
    await operator.recover()
