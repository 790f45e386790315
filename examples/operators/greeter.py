"""A kopf operator: each Greeting gets as many ConfigMaps ("cards") as it asks for. Async, with lightkube."""

import kopf
from lightkube import ApiError, AsyncClient
from lightkube.resources.core_v1 import ConfigMap


@kopf.on.startup()
async def connect(memo, **_):
    memo.client = AsyncClient()


@kopf.on.create("greetings.example.dev")
@kopf.on.update("greetings.example.dev", field="spec")
async def make_cards(spec, name, namespace, memo, patch, meta, **_):
    for number in range(spec["copies"]):
        card = {"metadata": {"name": f"{name}-{number}"}, "data": {"message": spec["message"]}}
        kopf.adopt(card)
        await create(
            memo.client, ConfigMap.from_dict({"apiVersion": "v1", "kind": "ConfigMap", **card}), namespace
        )
    patch.status["cards"] = spec["copies"]
    patch.status["observedGeneration"] = meta["generation"]


async def create(client, card, namespace):
    try:
        await client.create(card, namespace=namespace)
    except ApiError as error:
        if error.status.code != 409:
            raise
        await client.replace(card, namespace=namespace)
