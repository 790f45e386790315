"""What the page is made from: the table of an override's changes, and the library of runbooks."""

from __future__ import annotations

import json

from fathom.kinds.override_changes import CHANGES
from fathom.model.body import encode_json
from fathom.steer.runbook_library import library
from fathom.web.documents import DOCUMENTS


def document(path: str) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(encode_json(DOCUMENTS[path]()))
    return found


def test_the_form_of_an_override_has_every_change_with_how_its_value_is_written() -> None:
    changes = document("/ui/override-table")["changes"]
    assert {str(each["name"]): each["form"] for each in changes} == {
        "pauseAutoscaler": "flag",
        "pauseRollout": "flag",
        "pauseRepair": "flag",
        "pauseExpansion": "flag",
        "avoidZones": "names",
        "avoidNodes": "names",
        "avoidNodeClasses": "names",
        "avoidPools": "names",
        "avoidTopology": "labels",
        "allowReservedCapacityClass": "name",
        "reservedReplicas": "number",
        "raisePriority": "number",
        "cordon": "flag",
        "drain": "flag",
        "approveRepairs": "names",
        "trafficWeights": "weights",
        "breakGlassRole": "name",
    }
    assert [each["name"] for each in changes] == list(CHANGES)


def test_a_row_of_the_table_says_what_the_change_is() -> None:
    (drain,) = [each for each in document("/ui/override-table")["changes"] if each["name"] == "drain"]
    assert drain == {
        "name": "drain",
        "about": "As cordon, and pods on the target's nodes are evicted, as disruption budgets allow.",
        "targets": ["node", "zone", "pool"],
        "hoursMax": 168,
        "verb": "drain",
        "enforcedBy": ["scheduler", "override-controller"],
        "risk": "high",
        "undone": "stays",
        "form": "flag",
        "example": "",
    }


def test_the_library_is_listed_as_objects() -> None:
    items = document("/ui/runbooks")["items"]
    assert [each["metadata"]["name"] for each in items] == list(library())  # type: ignore[index]
