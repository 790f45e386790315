"""Changes that an observer sees, as audit entries: who says to have written them, and which fields."""

from __future__ import annotations

from typing import Any

from fathom.attach.observed_writes import OBSERVED, observed_write, writer_of
from fathom.model.audit import AuditEntry

Obj = dict[str, Any]


def managed(manager: str, time: str, subresource: str = "") -> Obj:
    more = {"subresource": subresource} if subresource else {}
    return {"manager": manager, "operation": "Update", "time": time, **more}


def node(*managers: Obj, **spec: Any) -> Obj:
    meta = {"name": "node-1", "uid": "u", "resourceVersion": "1", "managedFields": list(managers)}
    return {"kind": "Node", "metadata": meta, "spec": spec}


def write(old: Obj | None, new: Obj | None, resource: str = "nodes") -> AuditEntry | None:
    return observed_write(resource, old, new, id_="a", time="2026-01-01T00:00:09Z", revision=7)


KUBELET = managed("kubelet", "2026-01-01T00:00:05Z", "status")
CORDON = managed("kubectl-cordon", "2026-01-01T00:00:03Z")


def test_the_writer_is_the_manager_whose_entry_is_new_not_the_newest_of_all() -> None:
    assert writer_of(node(KUBELET), node(KUBELET, CORDON)) == ("kubectl-cordon", "")
    assert writer_of(node(), node(KUBELET, CORDON)) == ("kubelet", "status")


def test_a_writer_that_left_no_trace_is_unknown() -> None:
    assert writer_of(node(KUBELET), node(KUBELET)) == ("unknown", "")
    assert writer_of(node(KUBELET), None) == ("unknown", "")


def test_a_change_names_its_fields_and_never_versions_or_managers() -> None:
    assert write(node(KUBELET), node(KUBELET, CORDON, unschedulable=True)) == AuditEntry(
        id="a", time="2026-01-01T00:00:09Z", user="kubectl-cordon", verb="update", resource="nodes", code=200,
        name="node-1", uid="u", user_agent=OBSERVED, revision=7, changed=("spec.unschedulable",),
    )  # fmt: skip
    assert write(node(KUBELET), node(KUBELET, CORDON)) is None


def test_creations_and_deletions_are_of_the_whole_object() -> None:
    made, gone = write(None, node(CORDON)), write(node(CORDON), None)
    assert made is not None
    assert gone is not None
    assert [(one.verb, one.changed, one.user) for one in (made, gone)] == [
        ("create", ("*",), "kubectl-cordon"),
        ("delete", ("*",), "unknown"),
    ]


def test_renewals_of_leases_are_no_writes_to_tell_of() -> None:
    assert write(node(a=1), node(a=2), "leases.coordination.k8s.io") is None
