"""Housekeeping records each of its decisions: before the write, with what caused it, and with its outcome."""

from __future__ import annotations

from pathlib import Path

from tests.api.harness import Api, config_map, tell

from fathom.controllers.housekeeping.writer import HousekeepingWriter
from fathom.model.audit import AuditEntry
from fathom.model.cause import WakeCause
from fathom.model.decision import KeptDecision, Subject
from fathom.record.audit_reading import read_entries
from fathom.record.journal import DiskJournal, read_journal
from fathom.store.memory import MemoryStore

MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNT = "system:fathom:housekeeping"


def recorded(data: Path) -> dict[str, KeptDecision]:
    return {kept.decision.id: kept for kept in read_journal(data / "journal")}


def written(api: Api, data: Path) -> list[AuditEntry]:
    """What housekeeping has written, Events aside."""
    api.audit.flush()
    return [
        entry
        for entry in read_entries(data / "audit")
        if entry.user == ACCOUNT and entry.wrote and entry.resource != "events"
    ]


def test_a_collected_object_names_the_owner_whose_end_was_the_cause(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        owner = (await api.post(MAPS, config_map("owner"))).obj
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        child = config_map("child")
        child["metadata"]["ownerReferences"] = [reference]
        uid = (await api.post(MAPS, child)).obj["metadata"]["uid"]
        await api.delete(f"{MAPS}/owner")

        async def is_gone() -> bool:
            return (await api.get(f"{MAPS}/child")).status == 404

        await api.eventually(is_gone)
        [entry] = [entry for entry in written(api, tmp_path) if entry.name == "child"]
        kept = recorded(tmp_path)[entry.decision]
        assert entry.actor == kept.decision.controller == "housekeeping/garbage-collector"
        assert (kept.decision.verdict, kept.decision.subject.uid) == ("delete", uid)
        deleted = next(
            entry for entry in read_entries(tmp_path / "audit", name="owner") if entry.verb == "delete"
        )
        cause = WakeCause(
            "event", "", "configmaps", "default", "owner", deleted.revision, event="deleted", gone=True
        )
        assert kept.decision.cause == cause
        assert [outcome.result for outcome in kept.outcomes] == ["committed"]

    tell(story, tmp_path, journal=DiskJournal(tmp_path / "journal"))


def test_every_write_of_housekeeping_names_a_decision_on_record(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        names = "/api/v1/namespaces"
        await api.post(names, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}})
        await api.post(f"{names}/shop/configmaps", config_map("a"))
        await api.delete(f"{names}/shop")

        async def is_gone() -> bool:
            return (await api.get(f"{names}/shop")).status == 404

        await api.eventually(is_gone)
        entries, journal = written(api, tmp_path), recorded(tmp_path)
        assert [entry for entry in entries if entry.decision not in journal] == []
        assert {entry.actor for entry in entries} >= {"housekeeping/bootstrap", "housekeeping/namespaces"}
        emptied = [entry for entry in entries if (entry.namespace, entry.verb) == ("shop", "delete")]
        causes = {journal[entry.decision].decision.cause.name for entry in emptied}
        assert {entry.name for entry in emptied} >= {"a"}
        assert causes == {"shop"}

    tell(story, tmp_path, store=MemoryStore(), journal=DiskJournal(tmp_path / "journal"))


def test_a_namespace_that_has_its_account_is_left_alone(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        names = "/api/v1/namespaces"
        await api.post(names, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "last"}})

        async def have_accounts() -> bool:
            paths = (f"{names}/{name}/serviceaccounts/default" for name in ("default", "last"))
            return all([(await api.get(path)).status == 200 for path in paths])

        async def is_gone() -> bool:
            return (await api.get(f"{names}/last")).status == 404

        await api.eventually(have_accounts)
        await api.patch(f"{names}/default", {"metadata": {"labels": {"a": "b"}}})
        await api.delete(f"{names}/last")  # Looked at after the change of `default`.
        await api.eventually(is_gone)
        decisions = [kept.decision for kept in recorded(tmp_path).values()]
        accounts = [each for each in decisions if each.subject.resource == "serviceaccounts"]
        assert [each.verdict for each in accounts if each.subject.namespace == "default"] == ["create"]

    tell(story, tmp_path, store=MemoryStore(), journal=DiskJournal(tmp_path / "journal"))


def test_the_outcome_of_a_delete_by_name_has_the_uid_of_what_was_deleted(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        uid = (await api.post(MAPS, config_map("a"))).obj["metadata"]["uid"]
        writer = HousekeepingWriter(api.parts.client, api.parts.decisions, "test")
        subject = Subject("configmaps", "default", "a")
        await writer.write("DELETE", f"{MAPS}/a", subject, cause=WakeCause("start"), why="a test")
        (kept,) = [kept for kept in recorded(tmp_path).values() if kept.decision.subject == subject]
        (outcome,) = kept.outcomes
        assert outcome.object == Subject("configmaps", "default", "a", uid)
        assert outcome.revision > 0

    tell(story, tmp_path, journal=DiskJournal(tmp_path / "journal"))
