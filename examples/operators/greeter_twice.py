"""`greeter.py` with a bug that many operators have: generateName. What is created again is another object."""

import kopf
from lightkube import AsyncClient
from lightkube.resources.core_v1 import ConfigMap


@kopf.on.startup()
async def connect(memo, **_):
    memo.client = AsyncClient()


@kopf.on.create("greetings.example.dev")
async def make_cards(spec, name, namespace, memo, patch, meta, **_):
    for _number in range(spec["copies"]):
        card = {"metadata": {"generateName": f"{name}-"}, "data": {"message": spec["message"]}}
        kopf.adopt(card)
        await memo.client.create(
            ConfigMap.from_dict({"apiVersion": "v1", "kind": "ConfigMap", **card}), namespace=namespace
        )
    patch.status["cards"] = spec["copies"]
    patch.status["observedGeneration"] = meta["generation"]
