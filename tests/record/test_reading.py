"""The audit log answers who wrote which field."""

from __future__ import annotations

from pathlib import Path

from tests.record.entries import StoppedClock, entry

from fathom.model.audit import Verdict
from fathom.record.audit import AuditLog
from fathom.record.audit_reading import FieldWrite, files, read_entries, writers_of

LABEL = Verdict("Team", mutated=("metadata.labels[team]",))
CREATED = entry(1, verb="create", user="jane", changed=("*",), admission=(LABEL,))
SCALED = entry(2, verb="patch", user="autoscaler", subresource="scale", changed=("spec.replicas",))
LABELLED = entry(3, verb="update", user="joe", changed=("metadata.labels[team]", "spec.replicas"))
COARSE = entry(4, verb="update", user="bulk", changed=("metadata",))
REFUSED = entry(5, user="mallory", code=403, revision=0, changed=("spec.replicas",))
DRY = entry(6, user="kim", dry_run=True, changed=("spec.replicas",))
OTHER = entry(7, name="api", user="jane", changed=("spec.replicas",))
ALL = (CREATED, SCALED, LABELLED, COARSE, REFUSED, DRY, OTHER)


def writers(field_path: str) -> list[tuple[str, bool, tuple[str, ...]]]:
    found = writers_of(
        ALL, resource="deployments.apps", namespace="default", name="web", field_path=field_path
    )
    return [(write.entry.user, write.certain, write.plugins) for write in found]


def test_the_writers_of_a_field_are_those_whose_writes_were_made() -> None:
    assert writers("spec.replicas") == [("jane", False, ()), ("autoscaler", True, ()), ("joe", True, ())]


def test_a_label_that_admission_added_names_the_plugin() -> None:
    assert writers("metadata.labels[team]") == [
        ("jane", False, ("Team",)),
        ("joe", True, ()),
        ("bulk", False, ()),
    ]
    assert writers("metadata.labels.team") == writers("metadata.labels[team]")


def test_a_write_below_the_field_is_a_write_of_it() -> None:
    (_, joe, bulk) = writers_of(
        ALL, resource="deployments.apps", namespace="default", name="web", field_path="metadata.labels"
    )
    assert joe == FieldWrite(LABELLED, ("metadata.labels[team]",), certain=True)
    assert bulk == FieldWrite(COARSE, ("metadata",), certain=False)


def written(tmp_path: Path) -> Path:
    log = AuditLog(tmp_path, clock=StoppedClock(), file_bytes_max=500)
    for one in ALL:
        log.record(one)
        log.flush()
    log.close()
    return tmp_path


def test_entries_are_read_in_order_over_all_files(tmp_path: Path) -> None:
    assert len(files(written(tmp_path))) > 2
    assert tuple(read_entries(tmp_path)) == ALL


def test_entries_are_chosen_by_object_field_and_time(tmp_path: Path) -> None:
    written(tmp_path)
    assert list(read_entries(tmp_path, resource="deployments.apps", namespace="default", name="api")) == [
        OTHER
    ]
    assert list(read_entries(tmp_path, resource="pods")) == []
    assert list(read_entries(tmp_path, namespace="")) == []
    assert list(read_entries(tmp_path, field_path="metadata.labels[team]")) == [CREATED, LABELLED, COARSE]
    assert list(read_entries(tmp_path, since=REFUSED.time, name="web")) == [REFUSED, DRY]


def test_a_directory_without_a_log_has_no_entries(tmp_path: Path) -> None:
    assert list(read_entries(tmp_path / "nowhere")) == []


def test_files_that_are_not_the_logs_are_left_alone_and_garbage_lines_are_skipped(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "audit.jsonl.bak").write_text("{}\n")
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"id":"half\n\xff\xfe\n[]\n\n')
    assert tuple(read_entries(tmp_path)) == ALL
