"""A controller in forty lines: a Greeting wants copies of its message, each in a ConfigMap of its own."""

from __future__ import annotations

from fathom.cache.needs import AtLeast
from fathom.client.api import Resource
from fathom.control.kit import Kit
from fathom.control.ownership import child_name, free_slots, owned, taken_slots
from fathom.control.plan import OWN_WRITES, Create, Delete, Patch, Plan, WriteStatus, target, write_status
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, OwnedBy, Primary, WatchedKind
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, metadata, uid_of

GREETING = WatchedKind("Greeting", Resource("example.dev", "v1", "greetings"))


class Greetings:
    name = "greetings"
    watches = (Primary(GREETING), OwnedBy(CONFIG_MAP))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        greeting = view.get("Greeting", key)
        if greeting is None or is_deleting(greeting):
            return ReconcileResult.never()  # Its ConfigMaps go with it: they name it as their owner.
        cards, since = view.owned("ConfigMap", uid_of(greeting)), self._kit.floor or 0
        plan = plan_greeting(greeting, cards, now=self._kit.now(), since=since)
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


def plan_greeting(greeting: Obj, cards: list[Obj], *, now: str, since: int = 0) -> Plan:
    wanted, text = greeting["spec"]["copies"], {"message": greeting["spec"]["message"]}
    kept = [card for card in cards if not is_deleting(card)]
    free = free_slots(taken_slots(cards, greeting), wanted - len(kept))
    other = [card for card in kept[:wanted] if card.get("data") != text]
    return Plan(
        creates=tuple(Create("ConfigMap", new_card(greeting, slot, text)) for slot in free),
        patches=tuple(Patch(target("ConfigMap", card), {"data": text}) for card in other),
        deletes=tuple(Delete(target("ConfigMap", card)) for card in kept[wanted:]),
        statuses=plan_status(greeting, len(kept[:wanted]) - len(other), len(cards), now=now),
        # Who begins to lead has first seen all that was done before its term.
        needs=(OWN_WRITES, AtLeast({"Greeting": since, "ConfigMap": since})),
    )


def new_card(greeting: Obj, slot: int, text: Obj) -> Obj:
    namespace, name = key_of(greeting)
    return owned(
        {"metadata": {"namespace": namespace, "name": child_name(name, slot)}, "data": text}, greeting
    )


def plan_status(greeting: Obj, good: int, all_there: int, *, now: str) -> tuple[WriteStatus, ...]:
    done = good == all_there == greeting["spec"]["copies"]
    conditions = set_condition(
        conditions_of(greeting),
        type="Ready",
        status="True" if done else "False",
        reason="AllWritten" if done else "Writing",
        message=f"{good} of {greeting['spec']['copies']} copies",
        observed_generation=metadata(greeting)["generation"],
        now=now,
    )
    return write_status("Greeting", greeting, {"copies": good, "conditions": conditions})
