"""Our kinds can be installed elsewhere: a server that does not know them takes their definitions."""

from __future__ import annotations

from pathlib import Path

from tests.api.harness import Api, tell

from fathom.kube.definitions.own import OWN_KINDS
from fathom.kube.definitions.own_crds import own_definitions
from fathom.model.objects import Obj

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

# Kinds that are answered and never stored.
ANSWERED = {
    "BindingBatch",
    "NodeConnection",
    "Decision",
    "Explanation",
    "Timeline",
    "Coupling",
    "OverridePreview",
}


def elsewhere(definition: Obj) -> Obj:
    """Under another group's name: our own is built in here."""
    spec = definition["spec"]
    names = {**spec["names"], "shortNames": []}
    return {
        **definition,
        "metadata": {"name": f"{names['plural']}.example.com"},
        "spec": {**spec, "group": "example.com", "names": names},
    }


def test_every_stored_kind_has_a_definition_that_is_accepted(tmp_path: Path) -> None:
    definitions = own_definitions()
    assert [one["spec"]["names"]["kind"] for one in definitions] == [
        kind.kind for kind in OWN_KINDS if kind.kind not in ANSWERED
    ]

    async def story(api: Api) -> None:
        for definition in definitions:
            answer = await api.post(f"{DEFINITIONS}?fieldValidation=Strict", elsewhere(definition))
            assert (answer.status, answer.headers.get("warning")) == (201, None), answer.obj
        override = {
            "apiVersion": "example.com/v1alpha1",
            "kind": "SchedulerOverride",
            "metadata": {"name": "o"},
            "spec": {
                "target": "workload/x",
                "reason": "r",
                "expiresAfter": "5m",
                "changes": {"cordon": True},
            },
        }
        path = "/apis/example.com/v1alpha1/namespaces/default/scheduleroverrides"
        assert (await api.post(path, override)).status == 201
        assert (await api.post(path, {**override, "spec": {}})).status == 422

    tell(story, tmp_path)
