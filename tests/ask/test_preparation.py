"""The view that questions need is made before the first one comes."""

from __future__ import annotations

import asyncio
import io
import json

from tests.ask.test_kept_cluster import Cluster
from tests.explain.builders import node, pod

from fathom.ask.kept_cluster import STEP_OBJECTS, KeptCluster
from fathom.ask.preparation import Preparation
from fathom.schedule.decide.rules import RULES, Rules
from fathom.seams.log import JsonLog
from fathom.seams.outside import SystemClock


def preparation(cluster: Cluster, kept: KeptCluster, log: io.StringIO) -> Preparation:
    return Preparation(kept, cluster.cache, JsonLog(log, SystemClock()))


def test_a_preparation_brings_the_view_up_to_date_and_then_has_nothing_to_do() -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)
    prepared = preparation(cluster, kept, io.StringIO())

    async def story() -> None:
        cluster.write("nodes", "a", node("a"))
        for number in range(2 * STEP_OBJECTS):
            cluster.write("pods", f"shop/p-{number}", pod(f"p-{number}", on="a"))
        assert kept.behind(cluster.objects()) == 2 * STEP_OBJECTS + 1
        assert await prepared.prepare() == 3
        assert kept.made_anew == 1
        assert (kept.behind(cluster.objects()), kept.size) == (0, 2 * STEP_OBJECTS + 1)
        assert await prepared.prepare() == 0
        cluster.write("pods", "shop/p-0", None)
        assert await prepared.prepare() == 1
        assert kept.made_anew == 1
        assert (kept.behind(cluster.objects()), kept.size) == (0, 2 * STEP_OBJECTS)

    asyncio.run(story())


def test_a_rule_that_cannot_be_loaded_ends_the_preparation_and_not_the_server() -> None:
    def broken() -> Rules:
        raise ImportError("no such rule")

    cluster, log = Cluster(), io.StringIO()
    cluster.write("nodes", "a", node("a"))
    asyncio.run(preparation(cluster, KeptCluster(broken), log).run())
    assert [json.loads(line)["event"] for line in log.getvalue().splitlines()] == [
        "questions are not prepared"
    ]
