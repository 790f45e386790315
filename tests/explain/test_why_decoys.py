"""Something else is wrong with the pod too, or was: the first line names what decides now, and the command
that it proposes can be typed as it is."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
import pytest
from tests.explain.builders import (
    BACK_OFF,
    HOST,
    RUNS,
    Obj,
    at,
    condition,
    container,
    decided,
    ended,
    event,
    evidence,
    node,
    own,
    pod,
    reported,
    running,
    why,
)

from fathom.cli.ask.explanation_text import explanation_lines
from fathom.controllers.node_health.brake import MANY
from fathom.explain.evidence import Evidence, ProcessState
from fathom.explain.why.answer import Explanation
from fathom.explain.why.retries import WORDS, retry_text
from fathom.schedule.decide.rules import RULES

SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
DEFAULT_TOLERATION = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
READINESS = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}}}
FAILS_NOW = condition("Starting", reason="WaitingForProbe", message="web: readiness probe failed: HTTP 503")
NO_IMAGE = {"reason": "ErrImageNeverPull", "message": "no such image"}


def bound(*statuses: Obj, spec: Obj | None = None, starting: Obj | None = None, **more: Any) -> Evidence:
    conditions = [starting or condition("Starting"), condition("Ready", "False", "ContainersNotReady")]
    held = pod("web", container(**(spec or {})), on="a", status=running(*statuses, conditions=conditions))
    return evidence(pods=[held], nodes=[node("a")], **more)


def long_ago(code: int, reason: str = "Error", message: str = "") -> Obj:
    return {**ended(code, reason, message), "startedAt": at(4060), "finishedAt": at(4001)}


def patched(explanation: Explanation) -> list[Obj]:
    """The operations of the JSON patch in the command."""
    assert explanation.change is not None
    words = shlex.split(explanation.change.command)
    operations: list[Obj] = json.loads(words[words.index("-p") + 1])
    return operations


def owned_by(kind: str, name: str) -> Obj:
    return {
        "ownerReferences": [{"kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}]
    }


def deployment(**template_spec: Any) -> dict[str, Any]:
    """A Deployment with its ReplicaSet. Its pods have what the API server adds, the template does not."""
    meta = {"namespace": "shop", "name": "web", "uid": "uid-Deployment-web"}
    middle = {"namespace": "shop", "name": "web-1", "uid": "uid-ReplicaSet-web-1"}
    return {
        "deployments_apps": [{"metadata": meta, "spec": {"template": {"spec": template_spec}}}],
        "replicasets_apps": [{"metadata": {**middle, **owned_by("Deployment", "web")}}],
    }


# A failure that is over does not decide.


@pytest.mark.parametrize(
    "earlier",
    [
        long_ago(143, message="Container web failed liveness probe, will be restarted: HTTP 500"),
        long_ago(137, "OOMKilled", "memory peak 67108864 of the limit 67108864 bytes"),
    ],
    ids=["liveness", "memory"],
)
def test_a_run_that_failed_long_ago_does_not_hide_the_probe_that_fails_now(earlier: Obj) -> None:
    status = reported(running={"startedAt": at(4000)}, restarts=1, last=earlier)
    spec = {**READINESS, "livenessProbe": {"tcpSocket": {"port": 1}}}
    assert why(bound(status, spec=spec, starting=FAILS_NOW)).cause == (
        "the readiness probe of container web fails: HTTP 503"
    )


def test_a_run_that_failed_just_now_is_the_cause_though_the_next_one_has_begun() -> None:
    status = reported(running={"startedAt": at(5)}, restarts=3, last=ended(137, "OOMKilled"))
    limit = {"resources": {"limits": {"memory": "64Mi"}}}
    case = bound(status, spec={**READINESS, **limit}, starting=FAILS_NOW)
    assert why(case).cause.startswith("container web was killed for memory: its limit is 64Mi")


def test_a_slow_liveness_probe_is_the_cause_until_the_run_is_much_longer_than_the_last() -> None:
    """It is killed after 90 s each time: 60 s into the next run nothing is over."""
    killed = ended(143, message="Container web failed liveness probe, will be restarted: HTTP 500")
    last = {**killed, "startedAt": at(151), "finishedAt": at(61)}
    status = reported(running={"startedAt": at(60)}, restarts=1, last=last)
    case = bound(status, spec={**READINESS, "livenessProbe": {}}, starting=FAILS_NOW)
    assert why(case).cause.startswith("the liveness probe of container web fails, so it is restarted")


def test_an_event_of_an_earlier_run_does_not_explain_how_the_last_one_ended() -> None:
    killed = "Stopping container web: Container web failed liveness probe, will be restarted: no"
    status = reported(waiting=BACK_OFF, restarts=5, last=ended(3))
    explanation = why(bound(status, events=[event("Killing", killed, ago_s=900)]))
    assert explanation.cause == "container web ends with code 3 (restarted 5 times)"


def test_an_event_of_an_earlier_run_does_not_say_which_probe_fails_now() -> None:
    status = reported(running={"startedAt": at(100)}, restarts=1, last=long_ago(1))
    refused = event("Unhealthy", "Startup probe failed: refused", ago_s=400)
    explanation = why(bound(status, spec=READINESS, events=[refused]))
    assert explanation.cause == "the readiness probe of container web has not passed yet"


# Of several containers, the one that holds back the others.


def test_a_sidecar_that_has_started_does_not_hold_back_the_container_whose_image_is_missing() -> None:
    sidecar = {**container("side", readinessProbe={"tcpSocket": {"port": 1}}), "restartPolicy": "Always"}
    status = running(
        reported("web", waiting=NO_IMAGE),
        initContainerStatuses=[{**reported("side", running=RUNS), "started": True}],
    )
    held = pod("web", container("web"), on="a", initContainers=[sidecar], status=status)
    explanation = why(evidence(pods=[held], nodes=[node("a")]))
    assert explanation.cause.startswith("image 'web:1' of container web cannot be pulled")
    (others,) = explanation.details
    assert others.lines == ("the readiness probe of container side has not passed yet",)


def test_a_sidecar_that_has_not_started_does() -> None:
    sidecar = {**container("side", startupProbe={"tcpSocket": {"port": 1}}), "restartPolicy": "Always"}
    waits = reported("web", waiting={"reason": "PodInitializing"})
    status = running(waits, initContainerStatuses=[reported("side", running=RUNS)])
    held = pod("web", container("web"), on="a", initContainers=[sidecar], status=status)
    explanation = why(evidence(pods=[held], nodes=[node("a")]))
    assert explanation.cause == "the startup probe of container side has not passed yet"


def test_the_container_in_the_first_line_is_not_listed_again() -> None:
    setup = reported("setup", waiting=BACK_OFF, restarts=2, last=ended(2))
    status = running(reported("web", waiting={"reason": "PodInitializing"}), initContainerStatuses=[setup])
    held = pod("web", container("web"), on="a", initContainers=[container("setup")], status=status)
    assert why(evidence(pods=[held], nodes=[node("a")])).details == ()


def test_a_container_that_ended_well_and_stays_so_is_named() -> None:
    status = running(reported("a", terminated=ended(0, "Completed")), reported("b", running=RUNS, ready=True))
    held = pod("web", container("a"), container("b"), on="a", restartPolicy="OnFailure", status=status)
    assert why(evidence(pods=[held], nodes=[node("a")])).cause == (
        "container a has ended with code 0 and is not started again (restartPolicy OnFailure)"
    )


# The proposed change is enough, and the API accepts it.


def variable(key: str, **more: Any) -> Obj:
    return {"name": key, "valueFrom": {"configMapKeyRef": {"name": "settings", "key": key, **more}}}


def test_a_missing_configmap_is_created_with_all_the_keys_that_the_pod_wants() -> None:
    env = [variable("B"), variable("A"), variable("C", optional=True)]
    missing = {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}
    explanation = why(bound(reported(waiting=missing), spec={"env": env}))
    assert "needs keys A and B of ConfigMap settings, which does not exist" in explanation.cause
    assert explanation.change is not None
    assert explanation.change.command == (
        "kubectl -n shop create configmap settings --from-literal=A=VALUE --from-literal=B=VALUE"
    )


def test_all_the_keys_that_a_configmap_lacks_are_added_at_once() -> None:
    message = 'couldn\'t find key B in configmap "settings"'
    waits = reported(waiting={"reason": "CreateContainerConfigError", "message": message})
    settings = {"metadata": {"namespace": "shop", "name": "settings"}, "data": {"A": "1"}}
    env = [variable("A"), variable("B"), variable("C")]
    change = why(bound(waits, spec={"env": env}, configmaps=[settings])).change
    assert change is not None
    assert change.what == "add keys B and C to ConfigMap settings"
    assert """'{"data":{"B":"VALUE","C":"VALUE"}}'""" in change.command


def test_keys_that_volumes_want_count_too() -> None:
    volume = {"name": "v", "secret": {"secretName": "login", "items": [{"key": "cert", "path": "c"}]}}
    missing = {"reason": "CreateContainerConfigError", "message": 'secret "login" not found'}
    status = running(reported(waiting=missing))
    case = evidence(pods=[pod(on="a", status=status, volumes=[volume])], nodes=[node("a")])
    change = why(case).change
    assert change is not None
    assert change.command == "kubectl -n shop create secret generic login --from-literal=cert=VALUE"


def test_a_toleration_is_added_to_a_template_that_has_none_though_its_pods_have_some() -> None:
    waits = pod(meta=owned_by("ReplicaSet", "web-1"), tolerations=[DEFAULT_TOLERATION])
    case = evidence(pods=[waits], nodes=[node("a", taints=[SPOT])], **deployment(containers=[container()]))
    (operation,) = patched(why(case))
    assert (operation["op"], operation["path"]) == ("add", "/spec/template/spec/tolerations")
    assert [each["key"] for each in operation["value"]] == ["spot"]
    (operation,) = patched(
        why(evidence(pods=[pod(tolerations=[DEFAULT_TOLERATION])], nodes=case.objects.list("nodes")))
    )
    assert operation["path"] == "/spec/tolerations/-"


def test_a_request_that_only_the_pod_has_is_set_with_its_parents_in_the_template() -> None:
    """The default comes from a LimitRange; and the server has put a container before it."""
    waits = pod("web", container("proxy", "1"), container("web", "4"), meta=owned_by("ReplicaSet", "web-1"))
    template = deployment(containers=[{"name": "web", "image": "web:1"}])
    (operation,) = patched(why(evidence(pods=[waits], nodes=[node("a")], **template)))
    assert operation == {
        "op": "add",
        "path": "/spec/template/spec/containers/0/resources",
        "value": {"requests": {"cpu": "3"}},
    }


def test_a_pod_of_a_replicaset_without_a_deployment_is_deleted_after_the_template_is_changed() -> None:
    meta = {"namespace": "shop", "name": "web-1", "uid": "uid-ReplicaSet-web-1"}
    made_by = {"metadata": meta, "spec": {"template": {"spec": {"containers": [container(cpu="9")]}}}}
    waits = pod(cpu="9", meta=owned_by("ReplicaSet", "web-1"))
    change = why(evidence(pods=[waits], nodes=[node("a")], replicasets_apps=[made_by])).change
    assert change is not None
    assert change.command.startswith("kubectl -n shop patch replicaset web-1 --type=json")
    assert change.command.endswith(" && kubectl -n shop delete pod web")
    assert change.who == "the owner of replicaset/web-1"


def test_of_devices_the_request_and_the_limit_are_lowered_together() -> None:
    both = {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    host = node("a")
    host["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    operations = patched(why(evidence(pods=[pod("web", container(resources=both))], nodes=[host])))
    assert [(each["path"], each["value"]) for each in operations] == [
        ("/spec/containers/0/resources/requests/nvidia.com~1gpu", "1"),
        ("/spec/containers/0/resources/limits/nvidia.com~1gpu", "1"),
    ]


def test_an_init_container_that_requests_most_is_lowered() -> None:
    waits = pod("web", container("web", "1"), initContainers=[container("setup", "9")])
    change = why(evidence(pods=[waits], nodes=[node("a")])).change
    assert change is not None
    assert change.what == "lower cpu of container setup to 4"


def test_a_command_is_set_where_the_container_has_only_arguments() -> None:
    last = ended(127, "StartError", "executable file not found in $PATH: -v")
    case = bound(reported(waiting=BACK_OFF, restarts=1, last=last), spec={"args": ["-v"]})
    assert patched(why(case)) == [{"op": "add", "path": "/spec/containers/0/command", "value": ["PROGRAM"]}]


def test_a_policy_is_not_patched_but_copied_for_the_workload_alone() -> None:
    """Policies cannot be changed, and others rely on this one."""
    zones: list[Any] = [{"labels": {"topology.kubernetes.io/zone": zone}} for zone in "ab"]
    case = evidence(
        pods=[pod("web-0", on="a", meta={"labels": {"app": "web"}}), pod()],
        nodes=[node("a", **zones[0]), node("b", **zones[1], taints=[SPOT])],
        schedulingpolicies_fathom_dev=[own("SchedulingPolicy", "v5", maxZoneSkew=1, preemption=False)],
        policyrollouts_fathom_dev=[
            own("PolicyRollout", "all", status={"active": "v5", "phase": "Complete"}, to="v5")
        ],
    )
    change = why(case).change
    assert change is not None
    words = shlex.split(change.command)
    assert (words[0], words[-4:]) == ("echo", ["kubectl", "apply", "-f", "-"])
    policy, rollout = json.loads(words[1])["items"]
    assert policy["spec"] == {"maxZoneSkew": 2, "preemption": False}
    assert rollout["spec"]["to"] == policy["metadata"]["name"]
    assert rollout["spec"]["scope"] == {"namespaces": ["shop"], "workloads": ["web"]}


def test_a_pod_affinity_that_nothing_meets_can_be_dropped() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "nobody"}}}
    waits = pod(affinity={"podAffinity": {REQUIRED: [term]}})
    (operation,) = patched(why(evidence(pods=[waits], nodes=[node("a"), node("b", taints=[SPOT])])))
    assert operation == {"op": "remove", "path": f"/spec/affinity/podAffinity/{REQUIRED}"}


def test_the_pods_that_anti_affinity_keeps_away_are_named_and_deleted() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "old"}}}
    others = [pod("old", on="a"), pod("older", on="a", meta={"labels": {"app": "old"}})]
    waits = pod(affinity={"podAntiAffinity": {REQUIRED: [term]}})
    explanation = why(evidence(pods=[*others, waits], nodes=[node("a"), node("b", taints=[SPOT])]))
    commands = [change.command for change in explanation.changes]  # Others need one change, this one two.
    assert commands[-1] == "kubectl -n shop delete pod old && kubectl -n shop delete pod older"


def test_a_readiness_gate_is_set_by_the_command() -> None:
    status = running(
        reported(running=RUNS, ready=True),
        conditions=[condition("Ready", "False", "ReadinessGatesNotReady", "not yet")],
    )
    gated = pod(on="a", readinessGates=[{"conditionType": "example.com/up"}], status=status)
    explanation = why(evidence(pods=[gated], nodes=[node("a", unschedulable=True)]))
    assert explanation.cause == "readiness gate example.com/up is not true"
    assert explanation.change is not None
    assert "--subresource=status --type=strategic" in explanation.change.command


def test_a_deadline_that_has_passed_is_raised_though_a_container_was_killed_at_the_end() -> None:
    status = {
        "phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active for too long",
        "containerStatuses": [reported(terminated=ended(137))],
    }  # fmt: skip
    case = evidence(pods=[pod(on="a", activeDeadlineSeconds=30, status=status)], nodes=[node("a")])
    explanation = why(case)
    assert "has failed: DeadlineExceeded" in explanation.summary
    assert "raise activeDeadlineSeconds above 30, for example to 60" in explanation.summary


# Others come first.


def test_room_that_is_held_for_a_pod_of_higher_priority_is_said_to_be_so() -> None:
    vip = pod("vip", cpu="3", priority=100, status={"nominatedNodeName": "a"})
    explanation = why(evidence(pods=[vip, pod(cpu="2")], nodes=[node("a"), node("b", taints=[SPOT])]))
    assert "room on a is held for pod shop/vip of priority 100" in explanation.summary
    below = pod("vip", cpu="3", status={"nominatedNodeName": "a"})
    case = evidence(pods=[below, pod(cpu="2", priority=100)], nodes=[node("a"), node("b", taints=[SPOT])])
    assert "is held" not in why(case).summary


def test_a_pod_that_waits_for_its_turn_says_how_many_go_first_by_priority() -> None:
    ahead = [
        {"namespace": "shop", "name": name, "priority": priority}
        for name, priority in (("vip", 100), ("old", 0))
    ]
    queue = {"pods": {"uid-web": {"place": 3, "of": 4, "ahead": ahead}}}
    process = ProcessState(process="s", parts=("scheduler",), leads=True, state={"queue": queue})
    explanation = why(evidence(pods=[pod()], nodes=[node("a")], processes=(process,)))
    assert explanation.cause == (
        "it fits a and waits for its turn, place 3 of 4 in the queue, behind 1 pod of higher priority"
    )
    lines = explanation_lines(msgspec.to_builtins(explanation))
    assert "  place in the queue: ahead of it: shop/vip, shop/old" in lines


def test_a_pod_that_an_override_brought_forward_says_so() -> None:
    ahead = [{"namespace": "shop", "name": "vip", "priority": 100}]
    raised = {"priority": 100, "raisedBy": "shop/urgent", "place": 2, "of": 4, "ahead": ahead}
    queue = {"pods": {"uid-web": raised}}
    process = ProcessState(process="s", parts=("scheduler",), leads=True, state={"queue": queue})
    explanation = why(evidence(pods=[pod()], nodes=[node("a")], processes=(process,)))
    assert explanation.cause == (
        "it fits a and waits for its turn, place 2 of 4 in the queue,"
        " raised to priority 100 by the override shop/urgent"
    )


def test_several_pods_that_have_to_leave_are_spoken_of_in_the_plural() -> None:
    low = [pod(name, cpu="2", on="a") for name in ("low-1", "low-2")]
    explanation = why(evidence(pods=[*low, pod(cpu="3", priority=100)], nodes=[node("a")]))
    assert "only if shop/low-1, shop/low-2 of lower priority leave a" in explanation.summary
    assert "wait for the scheduler to evict them" in explanation.summary


# Nodes that are not heard of.


def unheard(*conditions: Obj, ready: str = "False", **objects: Any) -> Explanation:
    status = running(reported(running=RUNS, ready=True), conditions=[condition("Ready", ready)])
    case = evidence(pods=[pod(on="a", status=status)], nodes=[node("a", conditions=conditions)], **objects)
    return why(case)


def held(state: str, why_held: str, reason: str = "BrakeHolds") -> tuple[Obj, Obj]:
    return (
        condition(f"fathom.dev/{state}", message="no heartbeat"),
        condition("fathom.dev/Held", reason=reason, message=why_held),
    )


def test_a_brake_that_keeps_a_silent_node_suspect_is_the_cause_though_its_pods_look_ready() -> None:
    explanation = unheard(*held("Suspect", MANY, "ManySilent"), ready="True")
    assert not explanation.as_wanted
    assert explanation.verdict == "was ready when its node was last heard of"
    assert explanation.cause == (
        f"its node a is suspect since {at(60)}: no heartbeat; the brake on node actions holds: {MANY}"
    )


@pytest.mark.parametrize("reason", ["Spared", "ManySilent", "BrakeHolds"])
def test_what_is_held_back_is_told_by_the_reason_however_its_message_is_worded(reason: str) -> None:
    told = [
        unheard(*held("Unreachable", message, reason), ready="True")
        for message in (MANY, "no pod is evicted: the gateway reaches pods there", "angehalten; held: ja")
    ]
    assert len({explanation.change for explanation in told}) == 1
    assert {"the brake" in explanation.cause for explanation in told} == {reason != "Spared"}


def test_a_node_that_is_only_late_does_not_make_its_ready_pods_wrong() -> None:
    assert unheard(condition("fathom.dev/Suspect", message="no heartbeat"), ready="True").as_wanted


def test_a_brake_that_people_have_engaged_is_released_by_the_command() -> None:
    meta = {"namespace": "fathom-system", "name": "node-brake"}
    brake = {"metadata": meta, "data": {"engaged": "true"}}
    explanation = unheard(*held("Suspect", "the brake is engaged by hand"), configmaps=[brake])
    assert explanation.change is not None
    assert explanation.change.command == (
        "kubectl -n fathom-system patch configmap node-brake --type=merge -p "
        """'{"data":{"engaged":"false"}}'"""
    )


def test_a_node_that_another_path_sees_alive_is_not_said_to_be_held_by_the_brake() -> None:
    spared = "no pod is evicted: the gateway reaches pods there"
    explanation = unheard(*held("Unreachable", spared, "Spared"), ready="True")
    assert "brake" not in explanation.summary
    assert explanation.cause.endswith(f"no heartbeat; {spared}")


def test_a_node_that_was_declared_lost_need_not_be_declared_again() -> None:
    lost = node("a", conditions=[condition("fathom.dev/Lost", message="declared")])
    lost["metadata"]["annotations"] = {"fathom.dev/declare-lost": "true"}
    case = evidence(pods=[pod(on="a", status=running(reported(running=RUNS)))], nodes=[lost])
    assert "declare" not in str(why(case).change)


# In words.


def test_every_event_that_wakes_a_pod_has_words() -> None:
    events = {event for rule in RULES.filters for event in rule.helped_by}
    assert events <= WORDS.keys()
    assert retry_text(["NodeAdded", "QuotaChanged"]) == (
        "tried again when a node is added, the tenant's quota changes, or within a minute"
    )
    assert retry_text(()) == "tried again within a minute"


def test_the_same_result_is_not_told_twice() -> None:
    message = "0/1 nodes are available: 1 Insufficient cpu."
    record = decided("unschedulable", message=message, looked_at=1)
    lines = explanation_lines(
        msgspec.to_builtins(why(evidence(pods=[pod(cpu="9")], nodes=[node("a")], records=(record,))))
    )
    assert "  decided again now: the same result" in lines
    assert not any(message in line for line in lines)


def test_a_command_that_stands_in_the_first_line_is_not_printed_again() -> None:
    status = reported(waiting=BACK_OFF, restarts=1, last=ended(3))
    lines = explanation_lines(msgspec.to_builtins(why(bound(status))))
    assert sum("kubectl -n shop logs web" in line for line in lines) == 1
