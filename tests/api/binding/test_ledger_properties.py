"""Whatever happens to pods and reservations, in whatever order and through whichever server: the ledger is
the sum of what is there, after every single step; so is a ResourceQuota; a pod keeps its node; nothing gets
on to a node beyond a limit, in whichever way."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.api.binding.cluster import NODES, OWN, PODS, batch, bind, item, node, own, pod
from tests.api.harness import Answer, Api, serving

from fathom.api.admission.quota import drift as quota_drift
from fathom.api.ledger.counting import drift
from fathom.api.ledger.holdings import pod_holding, reservation_holding
from fathom.model.objects import Key, Obj
from fathom.schedule.loop.reservations import reservation_for
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Expect, Outcome, Store, Unknown, Write

pytestmark = pytest.mark.slow

T = TypeVar("T")

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
RESERVATIONS = f"{OWN}/namespaces/default/reservations"
NODE_NAMES = ("a", "b", "c")
POD_NAMES = tuple(f"p{number}" for number in range(8))
LIMIT_MILLI = 3000  # Of zone x, for the tenant.

nodes, pods, servers = st.sampled_from(NODE_NAMES), st.sampled_from(POD_NAMES), st.integers(0, 1)
cpus = st.sampled_from(["0", "100m", "700m", "1500m"])


class ForgetfulStore:
    """The one store of two servers. Asked to, it forgets to answer one commit, having done it or not."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.forget: str = ""  # 'before', 'after'

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        forget, self.forget = self.forget, ""
        if forget == "before":
            return Unknown("forgotten")
        outcome = await self._store.commit(preconditions, writes)
        return Unknown("forgotten") if forget else outcome

    async def close(self) -> None: ...


class Ledger(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = ForgetfulStore()
        self.stack = AsyncExitStack()
        self.placed: dict[str, str] = {}  # UID -> node: where every pod has ever been.
        self.apis: list[Api] = []
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def _start(self) -> None:
        data = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        for number in range(2):
            (data / str(number)).mkdir()
            served = serving(data / str(number), cast(Store, self.store), shared_store=True)
            self.apis.append(await self.stack.enter_async_context(served))
        for name in NODE_NAMES:
            await self.apis[0].post(NODES, node(name, zone="x" if name == "a" else "y", cpu="2", pods="4"))
        limits = {
            "limits": [{"zone": "x", "resources": {"cpu": f"{LIMIT_MILLI}m"}}, {"resources": {"pods": 9}}]
        }
        await self.apis[0].post(f"{OWN}/tenantquotas", own("TenantQuota", "default", limits))
        quota = {
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"requests.cpu": "6", "pods": "9"}},
        }
        assert (await self.apis[0].post(QUOTAS, quota)).status == 201

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()

    @rule(name=pods, cpu=cpus, port=st.sampled_from([0, 80]), by=servers)
    def create(self, name: str, cpu: str, port: int, by: int) -> None:
        self.run(self.apis[by].post(PODS, pod(name, cpu=cpu, port=port)))

    @rule(name=pods, cpu=cpus, node_name=nodes, by=servers)
    def create_on_a_node(self, name: str, cpu: str, node_name: str, by: int) -> None:
        self.run(self.apis[by].post(PODS, pod(name, cpu=cpu, node_name=node_name)))

    @rule(name=pods, node_name=nodes, by=servers)
    def bind(self, name: str, node_name: str, by: int) -> None:
        self.run(bind(self.apis[by], name, node_name))

    @rule(asked=st.lists(st.tuples(pods, nodes), max_size=6), by=servers)
    def bind_many(self, asked: list[tuple[str, str]], by: int) -> None:
        self.run(batch(self.apis[by], *(item(name, node_name) for name, node_name in asked)))

    @rule(name=pods, one=nodes, other=nodes)
    def bind_through_both_at_once(self, name: str, one: str, other: str) -> None:
        async def both() -> list[Answer]:
            return list(await asyncio.gather(bind(self.apis[0], name, one), bind(self.apis[1], name, other)))

        answers = self.run(both())
        assert [answer.status for answer in answers].count(201) <= 1

    @rule(name=pods, node_name=nodes, when=st.sampled_from(["before", "after"]), by=servers)
    def bind_and_never_hear(self, name: str, node_name: str, when: str, by: int) -> None:
        self.store.forget = when
        answer = self.run(bind(self.apis[by], name, node_name))
        assert answer.status in {404, 409, 429, 504}
        self.store.forget = ""

    @rule(name=pods, phase=st.sampled_from(["Running", "Succeeded", "Failed"]), by=servers)
    def report(self, name: str, phase: str, by: int) -> None:
        self.run(self.apis[by].patch(f"{PODS}/{name}/status", {"status": {"phase": phase}}))

    @rule(name=pods, grace=st.sampled_from([None, 0]), by=servers)
    def delete(self, name: str, grace: int | None, by: int) -> None:
        self.run(self.apis[by].delete(f"{PODS}/{name}", {"gracePeriodSeconds": grace}))

    @rule(name=pods, by=servers)
    def evict(self, name: str, by: int) -> None:
        eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}}
        self.run(self.apis[by].post(f"{PODS}/{name}/eviction", eviction))

    @rule(name=st.sampled_from(["r1", "r2"]), cpu=cpus, node_name=nodes, by=servers)
    def reserve(self, name: str, cpu: str, node_name: str, by: int) -> None:
        spec = {
            "workload": {"uid": "w"},
            "intent": name,
            "nodeName": node_name,
            "resources": {"cpu": cpu},
        }
        self.run(self.apis[by].post(RESERVATIONS, own("Reservation", name, spec)))

    @rule(name=pods, node_name=nodes, by=servers)
    def reserve_for_a_pod(self, name: str, node_name: str, by: int) -> None:
        """As the scheduler does when others leave for it."""
        answer = self.run(self.apis[by].get(f"{PODS}/{name}"))
        if answer.status == 200:
            wanted = reservation_for(
                answer.obj, node_name, (), now_ns=self.apis[by].core.outside.clock.now_ns()
            )
            made = self.run(self.apis[by].post(RESERVATIONS, wanted))
            if made.status == 201:
                self.run(
                    batch(self.apis[by], item(name, node_name, reservation=made.obj["metadata"]["name"]))
                )

    @rule(name=pods, reservation=st.sampled_from(["r1", "r2"]), node_name=nodes, by=servers)
    def bind_reserved(self, name: str, reservation: str, node_name: str, by: int) -> None:
        self.run(batch(self.apis[by], item(name, node_name, reservation=reservation)))

    @rule(
        name=st.sampled_from(["r1", "r2"]),
        phase=st.sampled_from(["Active", "Released", "Expired", ""]),
        by=servers,
    )
    def settle_reservation(self, name: str, phase: str, by: int) -> None:
        if phase:
            self.run(self.apis[by].patch(f"{RESERVATIONS}/{name}/status", {"status": {"phase": phase}}))
        else:
            self.run(self.apis[by].delete(f"{RESERVATIONS}/{name}"))

    @rule(by=servers)
    def lower_the_quota(self, by: int) -> None:
        limits = {"limits": [{"zone": "x", "resources": {"cpu": "1"}}, {"resources": {"pods": 2}}]}
        self.run(self.apis[by].patch(f"{OWN}/tenantquotas/default", {"spec": limits}))

    # What must hold.

    def _pods(self) -> list[Obj]:
        self.run(self.apis[0].core.catch_up())
        return [entry.body.obj for entry in self.apis[0].core.cache.of("pods").entries.values()]

    @precondition(lambda self: self.apis)
    @invariant()
    def the_ledger_is_the_sum(self) -> None:
        self._pods()
        assert drift(self.apis[0].core.cache) == {}

    @precondition(lambda self: self.apis)
    @invariant()
    def a_pod_keeps_its_node(self) -> None:
        for one in self._pods():
            where = one["spec"].get("nodeName")
            if where:
                assert self.placed.setdefault(one["metadata"]["uid"], where) == where

    @precondition(lambda self: self.apis)
    @invariant()
    def nothing_is_beyond_a_limit(self) -> None:
        used: Counter[str] = Counter()
        reserved = self.apis[0].core.cache.of("reservations.fathom.dev").entries.values()
        held = [pod_holding(one) for one in self._pods()]
        held += [reservation_holding(entry.body.obj) for entry in reserved]
        for one in held:
            if one is not None:
                used[one.node] += one.counts.get("cpu", 0)
                used[one.account.zone] += one.counts.get("cpu", 0)
                used["places"] += one.counts["pods"]
        assert max((used[name] for name in NODE_NAMES), default=0) <= 2000
        assert used["x"] <= LIMIT_MILLI
        assert used["places"] <= 9

    @precondition(lambda self: self.apis)
    @invariant()
    def the_namespaces_quota_is_the_sum(self) -> None:
        self._pods()
        view = self.apis[0].core.cache
        assert quota_drift(view.get("resourcequotas", Key("default", "q")).obj, view) == {}


TestLedger = Ledger.TestCase
TestLedger.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
