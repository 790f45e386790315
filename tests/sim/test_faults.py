"""Faults as values: drawn, matched, told, kept."""

from __future__ import annotations

import random

import msgspec
import pytest

from fathom.seams.seam import Ask
from fathom.sim.world.active_faults import shape
from fathom.sim.world.fault_menu import Menu, draw
from fathom.sim.world.faults import (
    MAKERS,
    AnyFault,
    Crash,
    CrashAtWrite,
    HoldWatch,
    LoseReply,
    OfCommits,
    OfMessages,
    Partition,
    Refuse,
    Skew,
    StaleServer,
    sentence,
)

MENU = Menu(
    processes=("scheduler", "repair"),
    servers=("api-1", "api-2"),
    kinds=("/pods", "/reservations"),
    happenings=("a node dies",),
)


def drawn(seeds: int, menu: Menu = MENU) -> list[AnyFault]:
    return [fault for seed in range(seeds) for fault in draw(random.Random(seed), menu)]


def test_every_kind_of_fault_is_drawn() -> None:
    assert {fault.kind for fault in drawn(300)} == {name for name, _ in MAKERS}


def test_what_a_story_cannot_have_is_not_drawn() -> None:
    menu = msgspec.structs.replace(MENU, without=("crash", "skew"), happenings=())
    assert {"crash", "skew", "happening"} & {fault.kind for fault in drawn(300, menu)} == set()


def test_drawn_faults_fit_the_menu() -> None:
    faults = drawn(200)
    assert {fault.target for fault in faults} <= {*MENU.processes, *MENU.servers, "*"}
    assert all(0 <= fault.at_s <= MENU.seconds for fault in faults)
    assert max(len(draw(random.Random(seed), MENU)) for seed in range(200)) == MENU.most


def test_a_fault_keeps_its_form_in_a_file() -> None:
    for fault in drawn(100):
        assert msgspec.json.decode(msgspec.json.encode(fault), type=AnyFault) == fault


@pytest.mark.parametrize(
    ("fault", "ask", "concerned"),
    [
        (LoseReply(at_s=0), Ask("GET", "/api/v1/pods"), True),
        (LoseReply(at_s=0, target="repair"), Ask("GET", "/api/v1/pods"), False),
        (LoseReply(at_s=0, match="POST "), Ask("GET", "/api/v1/pods"), False),
        (LoseReply(at_s=0, match="/pods"), Ask("GET", "/api/v1/pods?watch=true"), True),
        (LoseReply(at_s=0, match="POST /api/v1/pods"), Ask("POST", "/api/v1/pods"), True),
    ],
)
def test_a_fault_concerns_whom_it_says(fault: AnyFault, ask: Ask, concerned: bool) -> None:
    assert fault.concerns("scheduler", ask) is concerned


@pytest.mark.parametrize(
    ("target", "site"),
    [
        ("/api/v1/namespaces/default/pods/web-1?watch=true", "/api/v1/pods"),
        ("/api/v1/namespaces/default/pods/web-1/status", "/api/v1/pods/status"),
        ("/api/v1/namespaces/default/pods", "/api/v1/pods"),
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/nodes/node-1", "/api/v1/nodes"),
        ("/api/v1/nodes/node-1/status", "/api/v1/nodes/status"),
        ("/api/v1/namespaces/default", "/api/v1/namespaces"),
        ("/apis/apps/v1/namespaces/a/deployments/b/scale", "/apis/apps/v1/deployments/scale"),
        ("/apis/fathom.dev/v1alpha1/capacityclasses/recovery", "/apis/fathom.dev/v1alpha1/capacityclasses"),
    ],
)
def test_names_of_objects_are_no_sites(target: str, site: str) -> None:
    assert shape(target) == site


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Crash(at_s=1, target="repair", for_s=2), "crash repair for 2 s"),
        (LoseReply(at_s=1, match="POST ", times=3), "lose-reply * on 'POST ' ×3"),
        (CrashAtWrite(at_s=0, target="repair", times=4, for_s=1), "crash-at-write repair number 4 for 1 s"),
        (
            Partition(at_s=0, target="repair", for_s=1, drops=True),
            "partition repair from *, dropping for 1 s",
        ),
        (Refuse(at_s=0, status=409), "refuse * with 409"),
        (Skew(at_s=0, target="repair", skew_s=-40), "skew repair of -40 s"),
    ],
)
def test_a_fault_in_words(fault: AnyFault, words: str) -> None:
    assert sentence(fault) == words


def test_every_fault_is_of_one_sort_that_active_faults_selects() -> None:
    sorts = (OfMessages, OfCommits, CrashAtWrite, Partition, HoldWatch, StaleServer)
    for kind in AnyFault.__args__:
        assert sum(issubclass(kind, sort) for sort in sorts) + kind.momentary == 1, kind
