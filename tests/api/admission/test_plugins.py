"""The built-in plugins that need no counting, and the loading of users' own."""

from __future__ import annotations

import random
import sys
import types
from importlib import metadata as packages
from typing import Any

import pytest
from tests.api.admission.world import JANE, World, create, delete, obj, pod, refusal, update

from fathom.api.admission.attempt import Admitted, Charge, WriteAttempt
from fathom.api.admission.chain import Chain
from fathom.api.admission.namespaces import NamespaceLifecycle
from fathom.api.admission.nodes import NodeRestriction
from fathom.api.admission.plugin import Plugin
from fathom.api.admission.plugins import UnknownPlugin, built_in, load_plugins
from fathom.api.admission.pods import DefaultTolerationSeconds, ServiceAccount
from fathom.api.admission.priority import Priority
from fathom.api.auth.authorize import Authorizer
from fathom.model.audit import Verdict
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.model.view import View
from fathom.seams.outside import SystemClock
from fathom.store.protocol import Expect

NAMESPACES = Chain([NamespaceLifecycle()])


def test_an_object_needs_a_namespace_that_exists() -> None:
    error = refusal(NAMESPACES, World(), obj("ConfigMap", "c", namespace="nowhere"))
    assert (error.code, error.reason) == (404, "NotFound")
    assert error.message == 'namespaces "nowhere" not found'


@pytest.mark.parametrize(
    "gone",
    [{"status": {"phase": "Terminating"}}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}],
)
def test_nothing_is_created_in_a_namespace_that_is_going_away(gone: Obj) -> None:
    world = World(obj("Namespace", "old", **gone))
    error = refusal(NAMESPACES, world, obj("ConfigMap", "c", namespace="old"))
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'configmaps "c" is forbidden: unable to create new content in namespace old '
        "because it is being terminated"
    )
    assert error.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace old is being terminated",
            "field": "metadata.namespace",
        }
    ]
    existing = obj("ConfigMap", "c", namespace="old")
    assert update(NAMESPACES, world, existing, existing) == Admitted(existing)
    assert delete(NAMESPACES, world, existing) == Admitted(None)


def test_the_commit_expects_the_namespace_as_it_was_seen() -> None:
    world = World(obj("Namespace", "new"))
    seen_at = world.revision_now
    world.put(pod())
    admitted = create(NAMESPACES, world, obj("ConfigMap", "c", namespace="new"))
    assert admitted.charges == (Charge((Expect("/registry/namespaces/new", seen_at),)),)


@pytest.mark.parametrize(
    "new",
    [obj("Node", "n"), obj("Namespace", "x"), obj("LocalSubjectAccessReview", "r", namespace="nowhere")],
)
def test_what_lives_in_no_namespace_expects_none(new: Obj) -> None:
    assert create(NAMESPACES, World(), new) == Admitted(new)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_may_not_be_deleted(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        delete(NAMESPACES, World(), obj("Namespace", name))
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert refused.value.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert delete(NAMESPACES, World(), obj("Namespace", "mine")) == Admitted(None)


ACCOUNTS = Chain([ServiceAccount()])


def test_a_pod_runs_as_the_default_account_unless_it_says_otherwise() -> None:
    admitted = create(ACCOUNTS, World(), pod())
    assert admitted.obj == pod(serviceAccountName="default", serviceAccount="default")
    assert admitted.verdicts == (
        Verdict("ServiceAccount", mutated=("spec.serviceAccountName", "spec.serviceAccount")),
    )
    assert create(ACCOUNTS, World(), pod(serviceAccountName="robot")) == Admitted(
        pod(serviceAccountName="robot")
    )
    assert create(ACCOUNTS, World(), pod(serviceAccount="robot")).obj == pod(
        serviceAccount="robot", serviceAccountName="robot"
    )


def test_a_mirror_pod_has_no_account() -> None:
    mirror = pod()
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": ""}
    assert create(ACCOUNTS, World(), mirror) == Admitted(mirror)


def test_whether_tokens_are_mounted_is_said_by_the_pod_or_else_by_its_account() -> None:
    account = obj("ServiceAccount", "shy", namespace="default", automountServiceAccountToken=False)
    asked = pod(serviceAccountName="shy")
    assert create(ACCOUNTS, World(account), asked).obj == pod(
        serviceAccountName="shy", automountServiceAccountToken=False
    )
    wants = pod(serviceAccountName="shy", automountServiceAccountToken=True)
    assert create(ACCOUNTS, World(account), wants).obj == wants


TOLERATIONS = Chain([DefaultTolerationSeconds()])


def toleration(key: str, seconds: int = 300) -> Obj:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def test_a_pod_bears_with_a_silent_node_for_five_minutes() -> None:
    other = {"key": "gpu", "operator": "Exists"}
    assert create(TOLERATIONS, World(), pod(tolerations=[other])).obj == pod(
        tolerations=[other, toleration(NOT_READY), toleration(UNREACHABLE)]
    )


@pytest.mark.parametrize(
    ("own", "added"),
    [
        (toleration(NOT_READY, 1), [UNREACHABLE]),
        ({"operator": "Exists"}, []),
        ({"key": NOT_READY, "effect": "NoSchedule"}, [NOT_READY, UNREACHABLE]),
        ({"key": UNREACHABLE, "effect": ""}, [NOT_READY]),
    ],
)
def test_what_a_pod_says_of_silent_nodes_stands(own: Obj, added: list[str]) -> None:
    expected = pod(tolerations=[own, *map(toleration, added)])
    assert create(TOLERATIONS, World(), pod(tolerations=[own])).obj == expected
    assert update(TOLERATIONS, World(), expected, expected) == Admitted(expected)


PRIORITY = Chain([Priority()])


def priority_class(name: str, value: int, **fields: Any) -> Obj:
    return obj("PriorityClass", name, value=value, **fields)


def test_a_pods_priority_is_that_of_its_class() -> None:
    world = World(priority_class("high", 100, preemptionPolicy="Never"), priority_class("low", 1))
    assert create(PRIORITY, world, pod(priorityClassName="high")).obj == pod(
        priorityClassName="high", priority=100, preemptionPolicy="Never"
    )
    assert create(PRIORITY, world, pod(priorityClassName="low")).obj == pod(
        priorityClassName="low", priority=1, preemptionPolicy="PreemptLowerPriority"
    )
    assert create(PRIORITY, world, pod()).obj == pod(priority=0, preemptionPolicy="PreemptLowerPriority")


def test_the_global_default_is_for_pods_that_name_no_class() -> None:
    world = World(priority_class("usual", 7, globalDefault=True))
    assert create(PRIORITY, world, pod()).obj == pod(
        priority=7, preemptionPolicy="PreemptLowerPriority", priorityClassName="usual"
    )


def test_system_classes_exist_before_anybody_creates_them() -> None:
    admitted = create(PRIORITY, World(), pod(priorityClassName="system-node-critical")).obj
    assert admitted is not None
    assert admitted["spec"]["priority"] == 2000001000


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priorityClassName": "high", "priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 100 from the given PriorityClass name",
        ),
        (
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_a_pod_cannot_choose_its_priority(spec: Obj, why: str) -> None:
    error = refusal(PRIORITY, World(priority_class("high", 100)), pod("p", **spec))
    assert (error.code, error.message) == (403, f'pods "p" is forbidden: {why}')


def test_an_update_that_leaves_out_the_priority_keeps_it() -> None:
    old = pod(priority=5, preemptionPolicy="Never")
    assert update(PRIORITY, World(), pod(), old).obj == old
    assert update(PRIORITY, World(), old, old) == Admitted(old)


def test_there_is_one_default_class() -> None:
    world = World(priority_class("usual", 7, globalDefault=True))
    error = refusal(PRIORITY, world, priority_class("second", 8, globalDefault=True))
    assert (error.code, error.message) == (
        403,
        'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass usual is already marked as '
        "default. Only one default can exist",
    )
    usual = priority_class("usual", 7, globalDefault=True)
    assert update(PRIORITY, world, usual, usual) == Admitted(usual)
    assert create(PRIORITY, world, priority_class("third", 9)).obj == priority_class("third", 9)


@pytest.mark.parametrize(
    ("new", "field", "message"),
    [
        (
            priority_class("system-mine", 1),
            "metadata.name",
            "Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: system-mine is not a known system priority class",
        ),
        (
            priority_class("system-node-critical", 1),
            "metadata.name",
            "Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: value of system-node-critical PriorityClass must be 2000001000",
        ),
        (
            priority_class("big", 1_000_000_001),
            "value",
            "Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
    ],
)
def test_a_bad_class_is_invalid(new: Obj, field: str, message: str) -> None:
    error = refusal(PRIORITY, World(), new)
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details["causes"] == [{"reason": "FieldValueForbidden", "message": message, "field": field}]


def test_a_classs_value_stands() -> None:
    error = refusal(PRIORITY, World(), priority_class("a", 2), priority_class("a", 1))
    assert [cause["field"] for cause in error.details["causes"]] == ["value"]


def test_a_node_writes_only_what_is_its_own() -> None:
    chain = Chain([NodeRestriction()])
    node = User("system:node:n1", ("system:nodes", "system:authenticated"))
    error = refusal(chain, World(), obj("Node", "n2"), user=node)
    assert (error.code, error.reason) == (403, "Forbidden")
    assert create(chain, World(), obj("Node", "n1"), user=node) == Admitted(obj("Node", "n1"))
    assert create(chain, World(), obj("Node", "n2"), user=JANE) == Admitted(obj("Node", "n2"))
    bound = pod(nodeName="n2", phase="Running")
    assert refusal(chain, World(), bound, bound, user=node, subresource="status").code == 403
    assert refusal(chain, World(), bound, bound, user=node, subresource="resize").code == 403


def test_the_built_in_chain_admits_a_plain_pod_and_tells_what_it_added() -> None:
    world = World()
    admitted = create(Chain(built_in(Authorizer(world), random.Random(1), SystemClock())), world, pod())
    assert [(verdict.plugin, verdict.mutated) for verdict in admitted.verdicts] == [
        ("ServiceAccount", ("spec.serviceAccountName", "spec.serviceAccount")),
        ("Priority", ("spec.priority", "spec.preemptionPolicy")),
        ("DefaultTolerationSeconds", ("spec.tolerations",)),
    ]
    unchanged = (
        Expect("/registry/namespaces/default", 2),
        Expect("/registry/quotarules.fathom.dev/default", 0),
    )
    assert admitted.charges == tuple(Charge((expect,)) for expect in unchanged)


class Mine(Plugin):
    name = "Mine"

    def validate(self, attempt: WriteAttempt, view: View) -> None: ...


class Nameless(Plugin): ...


class Breaking(Plugin):
    name = "Breaking"

    def __init__(self) -> None:
        raise OSError("no configuration")


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("own_plugins")
    for one in (Mine, Nameless, Breaking):
        setattr(module, one.__name__, one)
    module.NotOne = dict  # type: ignore[attr-defined]  # a module made by hand
    monkeypatch.setitem(sys.modules, "own_plugins", module)
    return "own_plugins"


def test_a_plugin_is_loaded_by_module_and_class(own_module: str) -> None:
    (plugin,) = load_plugins([f"{own_module}:Mine"])
    assert isinstance(plugin, Mine)
    assert not plugin.trusted


def test_a_plugin_is_loaded_by_its_entry_point(own_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = packages.EntryPoint("mine", f"{own_module}:Mine", "fathom.admission")
    monkeypatch.setattr(
        packages, "entry_points", lambda group: [point] if group == "fathom.admission" else []
    )
    (plugin,) = load_plugins(["mine"])
    assert isinstance(plugin, Mine)
    with pytest.raises(UnknownPlugin, match=r"'yours': no such entry point in fathom.admission \(mine\)"):
        load_plugins(["yours"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module:X", "ModuleNotFoundError"),
        ("own_plugins:Missing", "AttributeError"),
        ("own_plugins:NotOne", "not a class derived from fathom.api.admission.plugin.Plugin"),
        ("own_plugins:Nameless", "its attribute `name` is empty"),
        ("own_plugins:Breaking", "OSError: no configuration"),
        ("nothing", "no such entry point in fathom.admission"),
        (":", "ValueError"),
    ],
)
def test_a_plugin_that_cannot_be_had_is_said_in_one_line(own_module: str, name: str, why: str) -> None:
    with pytest.raises(UnknownPlugin) as unknown:
        load_plugins([name])
    assert str(unknown.value).startswith(f"admission plugin {name!r}: ")
    assert why in str(unknown.value)
