"""`fathom coupling`: its subjects, its outputs, its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.clients.running import Server, running
from tests.cluster.living import until

from fathom.cli.ask.coupling import parse
from fathom.cli.main import run
from fathom.cli.problem import Problem
from fathom.explain.coupling.answer import CouplingQuestion
from fathom.explain.evidence import ObjectRef

Ask = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("subject", "about", "question"),
    [
        ("autoscaling", ObjectRef("", "", ""), CouplingQuestion(controller="autoscaling")),
        ("controllers/nodes", ObjectRef("", "", ""), CouplingQuestion(controller="controllers/nodes")),
        ("deploy/web", ObjectRef("deployments.apps", "shop", "web"), CouplingQuestion()),
        (
            "Pod/web-1:status.conditions[type=fathom.dev/Serving]",
            ObjectRef("pods", "shop", "web-1"),
            CouplingQuestion(field="status.conditions[type=fathom.dev/Serving]"),
        ),
        ("node/node-1", ObjectRef("nodes", "", "node-1"), CouplingQuestion()),
        ("gadget/web", ObjectRef("gadget", "shop", "web"), CouplingQuestion()),
    ],
)
def test_a_subject_is_a_controller_an_object_or_a_field(
    subject: str, about: ObjectRef, question: CouplingQuestion
) -> None:
    assert parse(subject, "shop") == (about, question)


@pytest.mark.parametrize("subject", ["deploy/", "/web", "/"])
def test_a_subject_without_a_kind_or_a_name_is_an_error(subject: str) -> None:
    with pytest.raises(Problem, match=f"write KIND/NAME, or the name of a controller, not '{subject}'"):
        parse(subject, "default")


def test_without_a_subject_the_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["coupling"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"scheduler", "binder", "controllers/autoscaling", "admission/LimitRanger", "agent"} <= set(names)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("coupling")) as started:
        yield started


@pytest.fixture
def ask(server: Server, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The exit code of `fathom coupling`, and what it wrote."""

    def coupling(*words: str) -> tuple[int, str, str]:
        code = run(["coupling", *words, "--kubeconfig", str(server.kubeconfig)])
        out, err = capsys.readouterr()
        return code, out, err

    return coupling


def test_a_controller_is_answered(ask: Ask) -> None:
    code, out, err = ask("autoscaling")
    assert code == 0, err
    assert out.startswith("controllers/autoscaling decides from 8 kinds")


def test_json_and_dot_are_whole_documents(ask: Ask) -> None:
    code, out, err = ask("scheduler", "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert document["subject"] == "scheduler"
    assert {link["form"] for link in document["links"]} >= {"two-writers", "shared-capacity", "cache-lag"}
    code, graph, _ = ask("scheduler", "-o", "dot")
    assert code == 0
    assert graph.startswith("digraph coupling {")
    assert graph.rstrip().endswith("}")


def test_a_field_names_who_wrote_it(server: Server, ask: Ask) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"a": "1"}}
    server.request("POST", "/api/v1/namespaces/default/configmaps", config_map)
    answers: list[tuple[int, str, str]] = []

    def is_on_record() -> bool:
        answers.append(ask("cm/web:data", "-o", "json"))
        return bool(json.loads(answers[-1][1])["observed"])

    until(is_on_record, lambda: str(answers[-1:]))  # The audit log is written a moment after the answer.
    assert answers[-1][0] == 0


GADGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def test_an_object_of_a_kind_that_users_define_has_writers_and_readers(server: Server, ask: Ask) -> None:
    server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS)
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "web"}}
    path = "/apis/example.com/v1/namespaces/default/gadgets"
    until(lambda: is_created(server, path, gadget), lambda: "the kind is not served")
    code, out, err = ask("gadget/web", "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert document["subject"] == "gadgets.example.com default/web"
    assert "housekeeping/garbage-collector" in {each["reader"] for each in document["inputs"]}


def is_created(server: Server, path: str, obj: dict[str, Any]) -> bool:
    try:
        server.request("POST", path, obj)
    except AssertionError:  # The kind is not served yet.
        return False
    return True


def test_what_does_not_exist_is_an_error_in_one_line(ask: Ask) -> None:
    code, _, err = ask("widget/web")
    assert (code, err) == (2, "fathom: error: spec.subject: there is no kind 'widget'\n")
    code, _, err = ask("nobody")
    assert (code, "there is no controller 'nobody': there are scheduler" in err) == (2, True)
    code, _, err = ask("deploy/none")
    line = "fathom: error: there is no deployment default/none, and nothing is on record about one\n"
    assert (code, err) == (1, line)
