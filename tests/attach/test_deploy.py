"""The manifests in deploy/attach are those that `fathom attach` prints, and run it with its account."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom.attach.ask_objects import AskAddress, ask_objects
from fathom.attach.installed import ACCOUNT, LABELS, objects_to_install
from fathom.model.accounts import SYSTEM_NAMESPACE

DEPLOY = Path(__file__).parents[2] / "deploy" / "attach"


@pytest.mark.parametrize(("folder", "observe_only"), [(".", False), ("observe-only", True)])
def test_the_manifests_are_those_that_attach_prints(folder: str, observe_only: bool) -> None:
    kept = list(yaml.safe_load_all((DEPLOY / folder / "installed.yaml").read_text()))
    assert kept == objects_to_install(observe_only=observe_only)


@pytest.mark.parametrize(("folder", "observe_only"), [(".", False), ("observe-only", True)])
def test_the_deployment_runs_attach_and_goes_with_its_namespace(folder: str, observe_only: bool) -> None:
    listed: dict[str, Any] = yaml.safe_load((DEPLOY / folder / "kustomization.yaml").read_text())
    assert listed["resources"] == ["installed.yaml", "deployment.yaml"]
    deployment = yaml.safe_load((DEPLOY / folder / "deployment.yaml").read_text())
    assert deployment["metadata"] == {"name": "fathom", "namespace": SYSTEM_NAMESPACE, "labels": LABELS}
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["serviceAccountName"] == ACCOUNT
    assert container["args"][0] == "attach"
    assert ("--observe-only" in container["args"]) == observe_only


def test_the_component_for_questions_serves_where_its_service_leads_to() -> None:
    kept = list(yaml.safe_load_all((DEPLOY / "ask" / "installed.yaml").read_text()))
    (service,) = [obj for obj in kept if obj["kind"] == "Service"]
    (port,) = service["spec"]["ports"]
    address = AskAddress("", port["targetPort"])
    assert kept == ask_objects(address, account=ACCOUNT, labels=LABELS)
    listed = yaml.safe_load((DEPLOY / "ask" / "kustomization.yaml").read_text())
    added = yaml.safe_load(listed["patches"][0]["patch"])
    assert [each["value"] for each in added[:2]] == ["--ask-api", f":{port['targetPort']}"]
    deployment = yaml.safe_load((DEPLOY / "deployment.yaml").read_text())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_the_script_that_makes_them_has_nothing_to_write() -> None:
    made = runpy.run_path(str(DEPLOY.parents[1] / "script" / "deploy"))["manifests"]()
    assert {name: (DEPLOY / name).read_text() for name in made} == made


def test_of_fathoms_kinds_only_overrides_are_installed() -> None:
    """Nothing there would keep a quota, reserve capacity or roll out a policy."""
    kinds = [
        obj["spec"]["names"]["kind"]
        for obj in objects_to_install(observe_only=False)
        if obj["kind"] == "CustomResourceDefinition"
    ]
    assert kinds == ["SchedulerOverride"]


def test_an_observer_installs_nothing_but_its_rights() -> None:
    kinds = {obj["kind"] for obj in objects_to_install(observe_only=True)}
    assert kinds == {
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    }  # fmt: skip
