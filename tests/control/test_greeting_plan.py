"""The tutorial's decision, without a server: objects in, a plan out."""

from __future__ import annotations

from typing import Any

from tests.control.greetings import example, greeting

from fathom.cache.needs import AtLeast
from fathom.control.ownership import owned
from fathom.control.plan import OWN_WRITES, Create, Delete, Patch, Plan, WriteStatus, target
from fathom.model.objects import Obj

NOW = "2026-01-01T00:00:00Z"
HELLO = {"message": "hello"}
NEEDS = (OWN_WRITES, AtLeast({"Greeting": 0, "ConfigMap": 0}))


def hi(copies: int, status: Obj | None = None) -> Obj:
    made = greeting("hi", copies=copies, namespace="ns", uid="u", generation=3, resourceVersion="9")
    return {**made, "status": status} if status else made


def card(slot: int, data: Obj = HELLO, **meta: Any) -> Obj:
    named = {"namespace": "ns", "name": f"hi-{slot}", **meta}
    return owned({"metadata": named, "data": data}, hi(0))


def status(good: int, wanted: int, done: bool) -> Obj:
    return {
        "copies": good,
        "conditions": [
            {
                "type": "Ready",
                "status": str(done),
                "observedGeneration": 3,
                "lastTransitionTime": NOW,
                "reason": "AllWritten" if done else "Writing",
                "message": f"{good} of {wanted} copies",
            }
        ],
    }


def planned(wanted: Obj, *cards: Obj) -> Plan:
    plan = example().plan_greeting(wanted, list(cards), now=NOW)
    assert isinstance(plan, Plan)
    return plan


def test_a_copy_that_is_going_keeps_its_slot_until_it_is_gone() -> None:
    going = card(0, deletionTimestamp=NOW)
    assert planned(hi(2), going) == Plan(
        creates=(Create("ConfigMap", card(1)), Create("ConfigMap", card(2))),
        statuses=(WriteStatus(target("Greeting", hi(2)), status(0, 2, False)),),
        needs=NEEDS,
    )


def test_too_many_are_deleted_and_other_words_are_corrected() -> None:
    old = card(0, {"message": "old"})
    assert planned(hi(1), old, card(1)) == Plan(
        patches=(Patch(target("ConfigMap", old), {"data": HELLO}),),
        deletes=(Delete(target("ConfigMap", card(1))),),
        statuses=(WriteStatus(target("Greeting", hi(1)), status(0, 1, False)),),
        needs=NEEDS,
    )


def test_where_all_is_as_wanted_nothing_is_planned() -> None:
    assert planned(hi(2, status(2, 2, True)), card(0), card(1)) == Plan(needs=NEEDS)
