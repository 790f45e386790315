"""The audit log: which decision a write carries out, and which part of fathom made it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.api.binding.cluster import NODES, PODS, batch, bind, item, node
from tests.api.harness import Api, config_map, pod, tell

from fathom.model.audit import AuditEntry
from fathom.model.well_known import ACTOR_HEADER, DECISION_ANNOTATION, DECISION_HEADER
from fathom.record.audit_reading import read_entries
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Expect, Outcome, StoreUnavailable, Write

GATEWAY = {"impersonate-user": "system:fathom:gateway"}


def entries(api: Api, data: Path, **wanted: Any) -> list[AuditEntry]:
    api.audit.flush()
    return list(read_entries(data / "audit", **wanted))


def test_each_pod_of_a_batch_names_its_own_decision(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        for name in ("p0", "p1", "p2"):
            await api.post(PODS, pod(name))
        first, second = ({DECISION_ANNOTATION: id_} for id_ in ("d-1", "d-2"))
        await batch(
            api, item("p0", "n1", annotations=first), item("p1", "n1", annotations=second), item("p2", "n1")
        )
        written = [entry for entry in entries(api, tmp_path) if entry.subresource == "binding"]
        assert [(entry.name, entry.decision) for entry in written] == [
            ("p0", "d-1"),
            ("p1", "d-2"),
            ("p2", ""),
        ]

    tell(story, tmp_path)


def test_a_single_binding_names_its_decision_too(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await api.post(PODS, pod("p0"))
        assert (await bind(api, "p0", "n1", annotations={DECISION_ANNOTATION: "d-7"})).status == 201
        [written] = [entry for entry in entries(api, tmp_path) if entry.subresource == "binding"]
        assert written.decision == "d-7"

    tell(story, tmp_path)


def test_a_binding_names_the_conditions_that_it_writes(tmp_path: Path) -> None:
    """A pod is often created and bound within one second, which is as exact as its conditions are: a timeline
    can only tell by this that the pod was Bound after its creation, and not before."""

    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await api.post(PODS, pod("p0"))
        await bind(api, "p0", "n1")
        [written] = [entry for entry in entries(api, tmp_path) if entry.subresource == "binding"]
        bound = (await api.get(f"{PODS}/p0")).obj["status"]["conditions"]
        types = {condition["type"] for condition in bound} - {"Admitted"}
        assert types == {"PodScheduled", "Bound"}
        assert {f"status.conditions[type={type_}]" for type_ in types} <= set(written.changed)
        assert "status.conditions" not in written.changed

    tell(story, tmp_path)


def test_a_long_annotation_does_not_fill_the_audit_log(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await api.post(PODS, pod("p0"))
        assert (await bind(api, "p0", "n1", annotations={DECISION_ANNOTATION: "x" * 10_000})).status == 201
        [written] = [entry for entry in entries(api, tmp_path) if entry.subresource == "binding"]
        assert written.decision == "x" * 128

    tell(story, tmp_path)


def test_only_an_account_of_ours_is_believed_about_who_writes(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        maps, headers = "/api/v1/namespaces/default/configmaps", {ACTOR_HEADER: "gateway"}
        assert (await api.post(maps, config_map("a"), headers=headers)).status == 201
        await api.post(PODS, pod("p0"))
        change = {"status": {"conditions": [{"type": "fathom.dev/Serving", "status": "True"}]}}
        decided = {**GATEWAY, **headers, DECISION_HEADER: "d-9", "user-agent": "test"}
        decided["content-type"] = "application/strategic-merge-patch+json"
        assert (await api.call("PATCH", f"{PODS}/p0/status", change, headers=decided)).status == 200
        [by_admin] = entries(api, tmp_path, name="a")
        by_gateway = entries(api, tmp_path, name="p0")[-1]
        assert (by_admin.user, by_admin.actor) == ("admin", "")
        assert (by_gateway.actor, by_gateway.decision, by_gateway.user_agent) == ("gateway", "d-9", "test")

    tell(story, tmp_path)


class Broken(MemoryStore):
    """A store whose commits fail as `error` says, if it is set."""

    error: Exception | None = None

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        if self.error is not None and any("/configmaps/" in write.key for write in writes):
            raise self.error
        return await super().commit(preconditions, writes)


def test_a_write_that_fails_in_the_server_is_in_the_log_too(tmp_path: Path) -> None:
    store = Broken()

    async def story(api: Api) -> None:
        for store.error in (StoreUnavailable("no quorum"), RuntimeError("a bug"), None):
            await api.post("/api/v1/namespaces/default/configmaps", config_map("c"))
        written = [entry.code for entry in entries(api, tmp_path) if entry.resource == "configmaps"]
        assert [code for code in written if code != 404] == [503, 500, 201]

    tell(story, tmp_path, store=store)
