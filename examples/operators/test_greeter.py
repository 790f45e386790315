from fathom.sim.testing import OperatorTest


async def test_every_greeting_gets_its_cards(operator: OperatorTest) -> None:
    await operator.apply("greeting-crd.yaml")
    operator.run("greeter.py")
    await operator.apply("hello.yaml")
    await operator.recover()
    assert len(operator.list("configmaps")) == 2
