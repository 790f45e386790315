"""The queue's own account of its order: what it says is what it then does."""

from __future__ import annotations

import copy
import random

import pytest

from fathom.model.cause import WakeCause
from fathom.model.objects import Key
from fathom.schedule.loop.queue import SchedulingQueue, WaitingPod
from fathom.schedule.loop.queue_state import AHEAD_NAMED, queue_state

SECOND_NS = 1_000_000_000
ADDED = WakeCause("event", "added")


def waiting(number: int, rng: random.Random) -> WaitingPod:
    tenant = rng.choice(("a", "b", "c"))
    return WaitingPod(
        uid=f"u-{number}",
        key=Key(tenant, f"web-{number}"),
        shape=rng.choice(("small", "large", f"own-{number}")),
        tenant=tenant,
        priority=rng.choice((0, 0, 0, 100)),
        created_ns=rng.randrange(5) * SECOND_NS,
    )


@pytest.mark.parametrize("seed", range(30))
def test_pods_are_taken_in_the_order_that_the_queue_tells(seed: int) -> None:
    rng = random.Random(seed)
    queue, most = SchedulingQueue(random.Random(seed)), rng.choice((1, 3, 256))
    for number in range(rng.randrange(1, 60)):
        queue.add(waiting(number, rng), ADDED, now_ns=number)
        if rng.random() < 0.2:
            for entry in queue.take(most=most):
                if rng.random() < 0.7:
                    queue.park(entry.pod.uid, ("NodeAdded",), now_ns=number)
                else:
                    queue.remove(entry.pod.uid)
    told = [entry.pod.uid for entry in queue.in_order(most=most)]
    again = [entry.pod.uid for entry in queue.in_order(most=most)]
    other = copy.deepcopy(queue)
    taken: list[str] = []
    while batch := other.take(most=most):
        taken += [entry.pod.uid for entry in batch]
    assert told == again == taken


def test_a_pods_place_and_who_is_ahead_come_from_the_queue() -> None:
    queue = SchedulingQueue(random.Random(1))
    for number in range(AHEAD_NAMED + 5):
        pod = WaitingPod(f"u-{number}", Key("team", f"web-{number}"), "one shape", "team", 0, number)
        queue.add(pod, ADDED, now_ns=0)
    last = f"u-{AHEAD_NAMED + 4}"
    state = queue_state(queue, (last, "u-0", "nobody"), 3 * SECOND_NS)
    assert state["active"] == AHEAD_NAMED + 5
    assert set(state["pods"]) == {last, "u-0"}
    assert (state["pods"]["u-0"]["place"], state["pods"]["u-0"]["ahead"]) == (1, [])
    mine = state["pods"][last]
    assert (mine["place"], mine["of"], mine["waitingS"]) == (AHEAD_NAMED + 5, AHEAD_NAMED + 5, 3.0)
    assert [pod["name"] for pod in mine["ahead"]] == [f"web-{number}" for number in range(4, AHEAD_NAMED + 4)]


def test_a_parked_pod_has_no_place_and_says_what_it_waits_for() -> None:
    queue = SchedulingQueue(random.Random(1))
    queue.add(WaitingPod("u", Key("a", "web"), "shape", "a", 0, 0), ADDED, now_ns=0)
    queue.take()
    queue.park("u", ("NodeAdded", "PodDeleted"), now_ns=SECOND_NS)
    (pod,) = queue_state(queue, ("u",), 2 * SECOND_NS)["pods"].values()
    assert (pod["state"], pod["waitsFor"]) == ("parked", ["NodeAdded", "PodDeleted"])
    assert "place" not in pod
    assert 52 <= pod["retriedInS"] <= 59
