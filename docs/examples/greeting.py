"""A controller in forty lines: a Greeting wants copies of its message, each in a ConfigMap of its own."""

from __future__ import annotations

from fathom.client.api import Resource
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.owning import child_name, free_slots, owned, taken_slots
from fathom.control.plan import OWN_WRITES, Create, Delete, Patch, Plan, WriteStatus, target
from fathom.control.watches import CONFIG_MAP, Kind, OwnedBy, Primary
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Key, Obj, is_deleting, metadata, uid_of

GREETING = Kind("Greeting", Resource("example.dev", "v1", "greetings"))


class Greetings:
    name = "greetings"
    watches = (Primary(GREETING), OwnedBy(CONFIG_MAP))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> Again:
        view = self._kit.snapshot()
        greeting = view.get("Greeting", key)
        if greeting is None or is_deleting(greeting):
            return Again.never()  # Its ConfigMaps go with it: they name it as their owner.
        plan = plan_greeting(greeting, view.owned("ConfigMap", uid_of(greeting)), now=self._kit.now())
        return Again.after(await self._kit.apply(key, plan, seen=view))


def plan_greeting(greeting: Obj, cards: list[Obj], *, now: str) -> Plan:
    meta, spec = metadata(greeting), greeting["spec"]
    wanted, text = int(spec.get("copies", 1)), {"message": str(spec["message"])}
    staying = [card for card in cards if not is_deleting(card)]
    slots = free_slots(taken_slots(cards, greeting), max(0, wanted - len(staying)))
    names = [{"name": child_name(meta["name"], slot), "namespace": meta["namespace"]} for slot in slots]
    good = [card for card in staying[:wanted] if card.get("data") == text]
    ready = set_condition(
        conditions_of(greeting),
        type="Ready",
        status="True" if len(good) == wanted == len(cards) else "False",
        reason="AllWritten" if len(good) == wanted == len(cards) else "Writing",
        message=f"{len(good)} of {wanted} copies",
        observed_generation=meta["generation"],
        now=now,
    )
    status = {"copies": len(good), "conditions": ready}
    return Plan(
        creates=tuple(
            Create("ConfigMap", owned({"metadata": name, "data": text}, greeting)) for name in names
        ),
        patches=tuple(
            Patch(target("ConfigMap", card), {"data": text}) for card in staying[:wanted] if card not in good
        ),
        deletes=tuple(Delete(target("ConfigMap", card)) for card in staying[wanted:]),
        statuses=()
        if status == greeting.get("status")
        else (WriteStatus(target("Greeting", greeting), status),),
        needs=(OWN_WRITES,),
    )
