"""The past that `fathom bench why` asks about reads like one that a scheduler recorded."""

from __future__ import annotations

from pathlib import Path

from fathom.bench.history import ROUND_NS, write_audit, write_decisions
from fathom.bench.workloads import node, pod
from fathom.model.objects import with_metadata
from fathom.model.record_query import ObjectRef, RecordQuery
from fathom.record.audit_index import AuditIndex
from fathom.record.journal import read_journal
from fathom.record.journal_reader import JournalReader

NOW_NS = 1_800_000_000_000_000_000
NODES = [node(number) for number in range(5)]
PODS = [with_metadata(pod(f"pod-{number}"), uid=f"uid-{number}", namespace="default") for number in range(30)]


def test_every_pod_has_as_many_decisions_as_asked_for_with_their_nodes_reasons(tmp_path: Path) -> None:
    history = write_decisions(tmp_path, NODES, PODS, rounds=4, budget_bytes=1 << 30, until_ns=NOW_NS)
    assert history.decisions == len(read_journal(tmp_path)) == 120
    reader = JournalReader(tmp_path)
    kept = reader.query(RecordQuery(objects=(ObjectRef("pods", "default", "pod-7", "uid-7"),)))
    assert [each.decision.verdict for each in kept] == ["bind", "unschedulable"] * 2
    assert [len(each.outcomes) for each in kept] == [1, 0, 1, 0]
    assert [NOW_NS - each.decision.time_ns for each in kept] == [ROUND_NS * rounds for rounds in (4, 3, 2, 1)]
    reasons = reader.node_rejections(kept[-1].decision)
    assert reasons is not None
    assert reasons.rules["NodeResourcesFit: Insufficient cpu"] == "NodeResourcesFit"
    assert reasons.reasons == {
        f"node-{number:05d}": "NodeResourcesFit: Insufficient cpu" for number in range(5)
    }


def test_the_audit_log_has_the_writes_of_the_pods_in_turn(tmp_path: Path) -> None:
    write_audit(tmp_path, PODS, writes=100, until_ns=NOW_NS)
    index = AuditIndex(tmp_path)
    entries = index.newest([ObjectRef("pods", "default", "pod-7")], 1000)
    assert [entry.revision for entry in entries] == [8, 38, 68, 98]
    index.close()
