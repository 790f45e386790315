"""`kubectl events` and `kubectl get events`: in order, about whom, of which type."""

from __future__ import annotations

import pytest
from tests.clients.kubectl import Kubectl
from tests.clients.objects import Obj, config_map
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


def event(name: str, about: str, *, second: int, type_: str = "Normal", count: int = 1) -> Obj:
    last = f"2024-01-01T00:00:{second:02}Z"
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "ConfigMap", "apiVersion": "v1", "name": about},
        "reason": f"Reason{second}",
        "message": f"message {second}",
        "type": type_,
        "count": count,
        "source": {"component": "tester"},
        "firstTimestamp": "2024-01-01T00:00:00Z",
        "lastTimestamp": last,
    }


@pytest.fixture
def told(kubectl: Kubectl, server: Server, namespace: str) -> Kubectl:
    kubectl.create(config_map("a"), config_map("b"))
    for made in (
        event("third", "a", second=3, type_="Warning"),
        event("first", "a", second=1),
        event("second", "b", second=2, count=5),
    ):
        made["involvedObject"]["namespace"] = namespace
        server.request("POST", f"/api/v1/namespaces/{namespace}/events", made)
    return kubectl


def test_events_are_sorted_by_their_last_time(told: Kubectl) -> None:
    shown = told.rows("events")
    assert [(row["TYPE"], row["REASON"], row["OBJECT"], row["MESSAGE"]) for row in shown] == [
        ("Normal", "Reason1", "ConfigMap/a", "message 1"),
        ("Normal", "Reason2", "ConfigMap/b", "message 2"),
        ("Warning", "Reason3", "ConfigMap/a", "message 3"),
    ]
    assert "(x5 over" in shown[1]["LAST SEEN"]


def test_events_of_one_object_and_of_one_type(told: Kubectl) -> None:
    assert [row["REASON"] for row in told.rows("events --for cm/a")] == ["Reason1", "Reason3"]
    assert [row["REASON"] for row in told.rows("events --types=Warning")] == ["Reason3"]


def test_get_events_as_a_table(told: Kubectl) -> None:
    rows = told.rows("get events")
    assert list(rows[0]) == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert {row["OBJECT"] for row in rows} == {"configmap/a", "configmap/b"}
    rows = told.rows("get events --sort-by=.lastTimestamp -o wide")
    assert [row["REASON"] for row in rows] == ["Reason1", "Reason2", "Reason3"]
    assert [row["COUNT"] for row in rows] == ["1", "5", "1"]
    assert {row["SOURCE"] for row in rows} == {"tester"}


def test_get_events_by_fields(told: Kubectl) -> None:
    def reasons(selector: str) -> list[str]:
        listed = told.json(f"get events --field-selector {selector}")
        return sorted(item["reason"] for item in listed["items"])

    assert reasons("type=Warning") == ["Reason3"]
    assert reasons("involvedObject.name=a,involvedObject.kind=ConfigMap") == ["Reason1", "Reason3"]
    assert reasons("reason!=Reason1") == ["Reason2", "Reason3"]


def test_both_groups_show_the_same_events(told: Kubectl) -> None:
    core = told.json("get events.v1. first")
    new = told.json("get events.events.k8s.io first")
    assert (new["regarding"], new["note"]) == (core["involvedObject"], core["message"])
    assert new["metadata"] == core["metadata"]


def test_a_new_event_is_seen_while_watching(told: Kubectl, server: Server, namespace: str) -> None:
    with told.started("events --watch") as watch:
        watch.until("Reason3")
        made = event("fourth", "b", second=4)
        made["involvedObject"]["namespace"] = namespace
        server.request("POST", f"/api/v1/namespaces/{namespace}/events", made)
        watch.until("Reason4")
