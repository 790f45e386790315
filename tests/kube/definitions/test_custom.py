"""From a definition to its status and its kind."""

from __future__ import annotations

import copy
from typing import Any

from tests.kube.definitions.bodies import WIDGETS

from fathom.kube.definitions.custom import default_crd, established, kinds_of_crd
from fathom.kube.definitions.kind import Kind, ScalePaths
from fathom.model.column import Column

EARLY, LATE = "2024-01-01T00:00:00Z", "2024-06-01T00:00:00Z"
TRUE = {"status": "True", "lastTransitionTime": EARLY}
ACCEPTED = {"type": "NamesAccepted", **TRUE, "reason": "NoConflicts", "message": "no conflicts found"}
ESTABLISHED = {
    "type": "Established",
    **TRUE,
    "reason": "InitialNamesAccepted",
    "message": "the initial names have been accepted",
}


def widgets() -> Any:
    crd = copy.deepcopy(WIDGETS)
    default_crd(crd)
    return crd


def gadgets(**names: Any) -> Any:
    """Another definition of the same group, with some of its names."""
    crd = widgets()
    crd["metadata"]["name"] = "gadgets.example.com"
    crd["spec"]["names"] = {
        "plural": "gadgets",
        "singular": "gadget",
        "kind": "Gadget",
        "listKind": "GadgetList",
        **names,
    }
    return crd


def accepted(crd: Any) -> Any:
    return {**crd, "status": established(crd, EARLY)}


def test_names_are_completed_from_the_kind() -> None:
    crd = widgets()
    assert crd["spec"]["names"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
        "categories": ["all"],
    }
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    again = copy.deepcopy(crd)
    default_crd(again)
    assert again == crd


def test_a_definition_becomes_a_kind() -> None:
    crd = widgets()
    assert kinds_of_crd(crd)[0] == Kind(
        group="example.com",
        version="v1",
        kind="Widget",
        plural="widgets",
        singular="widget",
        namespaced=True,
        list_kind="WidgetList",
        short_names=("wd",),
        categories=("all",),
        subresources=("scale", "status"),
        scale=ScalePaths("spec.size", "status.size"),
        generation=True,
        columns=(Column(name="Size", type="integer", path=".spec.size", priority=1),),
        selectable=("spec.colour",),
        schema=crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
    )


def test_an_accepted_definition_is_established_at_once() -> None:
    crd = widgets()
    assert established(crd, EARLY) == {
        "conditions": [ACCEPTED, ESTABLISHED],
        "acceptedNames": crd["spec"]["names"],
        "storedVersions": ["v1"],
    }


def test_conditions_that_stay_keep_their_time_and_others_are_left_alone() -> None:
    crd = accepted(widgets())
    other = {"type": "Terminating", "status": "False", "lastTransitionTime": EARLY}
    crd["status"]["conditions"].insert(0, other)
    assert established(crd, LATE)["conditions"] == [other, ACCEPTED, ESTABLISHED]


def test_a_name_that_is_taken_is_not_accepted() -> None:
    crd = gadgets(shortNames=["wd", "widget"])
    assert established(crd, LATE, [accepted(widgets()), crd]) == {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "False",
                "lastTransitionTime": LATE,
                "reason": "ShortNamesConflict",
                "message": '["wd" is already in use, "widget" is already in use]',
            },
            {
                "type": "Established",
                "status": "False",
                "lastTransitionTime": LATE,
                "reason": "NotAccepted",
                "message": "not all names are accepted",
            },
        ],
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


def test_kinds_conflict_with_kinds() -> None:
    status = established(gadgets(kind="Widget"), LATE, [accepted(widgets())])
    assert (status["conditions"][0]["reason"], status["conditions"][0]["message"]) == (
        "KindConflict",
        '"Widget" is already in use',
    )


def test_other_groups_and_the_definition_itself_do_not_conflict() -> None:
    elsewhere = accepted(gadgets(plural="widgets", kind="Widget", listKind="WidgetList"))
    elsewhere["spec"]["group"] = "other.com"
    crd = accepted(widgets())
    assert established(crd, LATE, [elsewhere, crd]) == crd["status"]


def test_a_served_definition_that_loses_a_name_goes_on_under_its_old_ones() -> None:
    crd = accepted(gadgets())
    before = crd["status"]["acceptedNames"]
    crd = copy.deepcopy(crd)
    crd["spec"]["names"]["shortNames"] = ["wd"]
    status = established(crd, LATE, [accepted(widgets())])
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("NamesAccepted", "False"),
        ("Established", "True"),
    ]
    assert status["acceptedNames"] == before
