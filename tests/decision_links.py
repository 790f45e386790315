"""The eight links of a decision's path, found by ids alone, in lists of decisions and in timelines.

    desired -> queued -> read -> decided -> written -> observed -> status -> next actor

In a list of decisions the links are fields, and revisions of what was written; in a timeline they are fields
of the decision's entry, and edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Document = dict[str, Any]

# Kubernetes knows no condition of a ReplicaSet that goes well: its status has counts and the generation.
WITHOUT_CONDITIONS = frozenset({"replicasets"})
# What it released is its own to remove, a minute later: it acts next itself.
ACTS_NEXT_ITSELF = frozenset({"repair-reservations"})


def whole_decisions(decisions: Sequence[Document], controller: str, resource: str) -> list[Document]:
    """The controller's decisions that have all links."""
    mine = [each for each in decisions if each["spec"]["controller"] == controller]
    return [
        each
        for each in mine
        if has_own_links(each) and is_reported(each, mine) and next_decisions(each, resource, decisions)
    ]


def has_own_links(decision: Document) -> bool:
    spec, status = decision["spec"], decision["status"]
    seen = spec.get("seen", {}).values()
    return (
        bool(spec["subject"]["uid"])
        and spec["subject"].get("generation") == spec.get("observedGeneration", 0) > 0
        and spec.get("queuedMs", -1) >= 0
        and any(seen)
        and all(kind["revision"] > 0 and "ageMs" in kind for kind in seen)
        and (
            not spec["controller"].startswith("scheduler") or bool(spec.get("scores") or spec.get("filters"))
        )
        and status["result"] == "committed"
    )


def is_reported(decision: Document, mine: Sequence[Document]) -> bool:
    """With a condition of its own, or with one that the same controller wrote about this generation."""
    subject = decision["spec"]["subject"]
    return decision["spec"]["controller"] in WITHOUT_CONDITIONS or any(
        other["spec"].get("condition") and other["spec"]["subject"] == subject for other in mine
    )


def next_decisions(decision: Document, resource: str, decisions: Sequence[Document]) -> list[str]:
    """Decisions that were woken by what this one wrote: by object and revision."""
    controller = decision["spec"]["controller"]
    written = {
        (outcome["object"]["resource"], outcome["object"]["name"], outcome["revision"])
        for outcome in decision["status"]["outcomes"]
        if outcome.get("revision") and outcome["object"]["resource"] == resource
    }
    return [
        each["metadata"]["name"]
        for each in decisions
        if (each["spec"]["controller"] != controller) is (controller not in ACTS_NEXT_ITSELF)
        and (cause := each["spec"]["cause"]).get("revision")
        and (cause["resource"], cause["name"], cause["revision"]) in written
    ]


def assert_in_timeline(
    decision: Document, resource: str, shown: Document, decisions: Sequence[Document]
) -> None:
    """The timeline of the decision's subject has the same links."""
    entries = {entry["id"]: entry for entry in shown["entries"]}
    entry = entries[f"decision:{decision['metadata']['name']}"]
    path, spec = entry["path"], decision["spec"]
    assert entry["object"]["uid"] == spec["subject"]["uid"]
    assert entry["generation"] == path["observedGeneration"] == spec["observedGeneration"]
    assert path["queuedMs"] == spec["queuedMs"]
    read = {kind: seen["revision"] for kind, seen in path["read"].items()}
    assert read == {kind: seen["revision"] for kind, seen in spec["seen"].items()}
    assert path.get("scores", {}) == spec.get("scores", {})
    assert path.get("condition", "") == spec.get("condition", "")
    assert all(result["result"] == "committed" for result in path["results"])
    assert all(result["revision"] > 0 for result in path["results"])
    following = set(next_decisions(decision, resource, decisions))
    assert following & set(followers(entry["id"], resource, shown["edges"], entries)), "nobody acts next"


def followers(
    decision: str, resource: str, edges: Sequence[Document], entries: dict[str, Document]
) -> Iterator[str]:
    """Ids of the decisions that follow from what the decision wrote."""
    for wrote in edges:
        is_write = wrote["cause"] == decision and wrote["kind"] == "wrote"
        if is_write and entries[wrote["effect"]]["object"]["resource"] == resource:
            for woke in edges:
                if woke["cause"] == wrote["effect"] and woke["kind"] == "woke":
                    yield entries[woke["effect"]]["ids"]["decision"]
