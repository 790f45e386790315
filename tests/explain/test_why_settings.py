"""Settings that keep a pod from starting or ending, and the change that helps; each with a decoy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.explain.builders import (
    BACK_OFF,
    NOT_READY,
    READY,
    RUNS,
    Obj,
    at,
    condition,
    container,
    decided,
    ended,
    evidence,
    node,
    pod,
    reported,
    running,
    why,
)

from fathom.explain.why.answer import Explanation
from fathom.model.audit import AuditEntry

REPLACE = " --dry-run=client -o json | kubectl replace --force -f -"
CONFIG_ERROR = {"reason": "CreateContainerConfigError", "message": "words of the agent"}
STARTING = condition("Starting", reason="WaitingForProbe", message="web: words of the agent")
DEFAULT_ACCOUNT = {"metadata": {"namespace": "shop", "name": "default"}}


def patched(path: str, value: str, op: str = "replace") -> str:
    operation = f'[{{"op":"{op}","path":"/spec/containers/0/{path}","value":{value}}}]'
    return f"kubectl -n shop patch pod web --type=json -p '{operation}'{REPLACE}"


def asked(
    status: Obj, spec: Obj | None = None, pod_spec: Obj | None = None, starting: Obj | None = None
) -> Explanation:
    """A pod on node-1 with this container. Decoy: node-2 is cordoned."""
    conditions = [starting or condition("Starting", reason="ContainerCreating"), NOT_READY]
    held = pod(
        "web", container(**(spec or {})), on="node-1", status=running(status, conditions=conditions),
        **(pod_spec or {}),
    )  # fmt: skip
    nodes = [node("node-1"), node("node-2", unschedulable=True)]
    return why(evidence(pods=[held], nodes=nodes, serviceaccounts=[DEFAULT_ACCOUNT]))


def test_a_missing_account_is_created_as_proposed() -> None:
    answer = asked(reported(waiting=CONFIG_ERROR), pod_spec={"serviceAccountName": "ghost"})
    assert answer.summary == (
        "pod shop/web is not ready: the pod needs ServiceAccount ghost, which does not exist."
        " Change: create ServiceAccount ghost (whoever may create serviceaccounts in shop)"
    )
    assert answer.change is not None
    assert answer.change.command == "kubectl -n shop create serviceaccount ghost"


@pytest.mark.parametrize("of_pod", [False, True])
def test_a_container_that_may_not_be_root_gets_another_user(of_pod: bool) -> None:
    """The decoy: its account, which exists."""
    user: Any = {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}
    account = {"serviceAccountName": "default"}
    answer = asked(
        reported(waiting=CONFIG_ERROR), {} if of_pod else user, {**account, **(user if of_pod else {})}
    )
    assert answer.cause == "container web asks for user 0, and runAsNonRoot forbids that"
    path, value = (
        ("securityContext", '{"runAsUser":1000}') if of_pod else ("securityContext/runAsUser", "1000")
    )
    assert answer.change is not None
    assert answer.change.command == patched(path, value, "add" if of_pod else "replace")


def test_a_volume_that_agents_do_not_mount_is_replaced() -> None:
    """The decoy: a volume that they mount."""
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    answer = asked(reported(waiting=CONFIG_ERROR), pod_spec={"volumes": volumes})
    assert answer.cause == (
        "volume data has the type persistentVolumeClaim, which fathom's agents do not mount"
    )
    assert answer.change is not None
    assert answer.change.command == (
        "kubectl -n shop patch pod web --type=json -p "
        """'[{"op":"replace","path":"/spec/volumes/1","value":{"name":"data","emptyDir":{}}}]'""" + REPLACE
    )


def test_other_settings_are_shown_where_the_agent_describes_them() -> None:
    answer = asked(reported(waiting=CONFIG_ERROR), pod_spec={"serviceAccountName": "default"})
    assert answer.cause == "container web cannot be configured: words of the agent"
    assert answer.change is not None
    assert answer.change.command == "kubectl -n shop describe pod web"


def test_a_working_directory_that_does_not_exist_is_corrected_and_not_the_command() -> None:
    failed = ended(128, "StartError", "workingDir: No such file or directory: /srv/ap")
    spec = {"command": ["serve"], "workingDir": "/srv/ap"}
    answer = asked(reported(waiting=BACK_OFF, restarts=2, last=failed), spec)
    assert answer.change is not None
    assert answer.change.what == "correct workingDir of container web"
    assert answer.change.command == patched("workingDir", '"DIRECTORY"')


def test_a_hook_that_fails_is_corrected_and_not_the_program() -> None:
    """The decoy: the container ended by the signal that the agent sent."""
    failed = ended(143, "Error", "PostStartHook failed: command terminated with exit code 1", signal=15)
    spec = {"lifecycle": {"postStart": {"exec": {"command": ["warm-up"]}}}}
    answer = asked(reported(waiting=BACK_OFF, restarts=2, last=failed), spec)
    assert answer.cause == (
        "the postStart hook of container web fails, so it is restarted (restarted 2 times):"
        " command terminated with exit code 1"
    )
    assert answer.change is not None
    assert answer.change.command == patched("lifecycle/postStart/exec/command", '["PROGRAM"]')


def test_a_program_that_ends_well_and_is_started_again_should_be_a_job() -> None:
    answer = asked(reported(waiting=BACK_OFF, restarts=3, last=ended(0, "Completed")))
    assert answer.cause == (
        "container web ends with code 0, and restartPolicy Always starts it again (restarted 3 times)"
    )
    assert answer.change is not None
    assert answer.change.what.startswith("make its program go on, or run it as a Job: kubectl -n shop logs")


def test_a_probe_that_has_not_begun_is_no_failure_of_the_program() -> None:
    spec = {"readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 300}}
    pending = condition("Starting", reason="ProbePending")
    answer = asked(reported(running=RUNS), spec, starting=pending)
    assert answer.summary == (
        "pod shop/web is not ready: the readiness probe of container web begins 300 s after its start."
        " Change: wait 100 s, or lower initialDelaySeconds of its readiness probe (the pod's owner)"
    )
    late = asked(reported(running={"startedAt": at(301)}), spec, starting=pending)
    assert late.cause == "the readiness probe of container web has not passed yet"


def test_a_probe_that_agents_cannot_make_is_replaced() -> None:
    spec = {"readinessProbe": {"grpc": {"port": 9}, "periodSeconds": 2}}
    answer = asked(reported(running=RUNS), spec, starting=STARTING)
    assert answer.change is not None
    assert answer.change.what == "use httpGet, tcpSocket or exec in the readiness probe of container web"
    assert answer.change.command == patched("readinessProbe", '{"periodSeconds":2,"tcpSocket":{"port":9}}')


# Deleted.

DELETED = AuditEntry(
    id="1", time=at(90), verb="delete", user="alice", code=200, resource="pods", namespace="shop", name="web",
    uid="uid-web", revision=60,
)  # fmt: skip
STOPPED = {
    "phase": "Failed",
    "startTime": at(300),
    "containerStatuses": [reported(terminated=ended(143, "Error", signal=15))],
}


def test_a_pod_that_a_finalizer_holds_has_not_failed() -> None:
    """The decoy: its containers were ended by a signal."""
    meta = {"deletionTimestamp": at(60), "finalizers": ["example.com/save"]}
    held = pod(on="a", status=STOPPED, meta=meta)
    answer = why(evidence(pods=[held], nodes=[node("a")], audit=(DELETED,)))
    assert answer.summary == (
        f"pod shop/web is being deleted: deleted by alice at {at(90)}; its containers have stopped, and"
        " finalizer example.com/save holds it. Change: let its controller finish, or remove the finalizer"
        " (whoever set example.com/save)"
    )
    assert answer.change is not None
    assert answer.change.command == (
        'kubectl -n shop patch pod web --type=json -p \'[{"op":"remove","path":"/metadata/finalizers"}]\''
    )
    assert answer.kind == "trouble"


def test_a_deleted_pod_of_a_lost_node_waits_for_nobody() -> None:
    lost = node("a", conditions=[condition("fathom.dev/Lost", message="no heartbeat")])
    status = running(reported(running=RUNS))
    held = pod(on="a", status=status, meta={"deletionTimestamp": at(60)})
    answer = why(evidence(pods=[held], nodes=[lost], audit=(DELETED,)))
    assert answer.cause == (
        f"deleted by alice at {at(90)}; its node a is lost since {at(60)}: no heartbeat,"
        " so nobody confirms that its containers have stopped"
    )
    assert answer.change is not None
    assert answer.change.command == "kubectl -n shop delete pod web --force"


def test_who_asked_for_a_deletion_is_named_and_not_the_agent_that_confirms_it() -> None:
    """The decoy: an earlier pod of this name, which somebody else deleted."""
    confirmed = msgspec.structs.replace(DELETED, id="2", user="system:node:a", time=at(85), revision=63)
    earlier = msgspec.structs.replace(DELETED, id="0", user="bob", uid="uid-earlier", revision=40)
    gone = why(evidence(nodes=[node("a")], audit=(earlier, DELETED, confirmed)))
    assert gone.summary == f"pod shop/web no longer exists: deleted by alice at {at(90)}"
    held = pod(on="a", status=STOPPED, meta={"deletionTimestamp": at(60), "finalizers": ["example.com/save"]})
    kept = why(evidence(pods=[held], nodes=[node("a")], audit=(earlier, DELETED, confirmed)))
    assert kept.cause.startswith(f"deleted by alice at {at(90)}; ")


def test_who_asked_for_a_deletion_is_named_also_where_the_answer_to_that_took_long() -> None:
    """The agent's confirmation is in the log before it. The decoy is the last in the log: an earlier pod of
    this name."""
    confirmed = msgspec.structs.replace(DELETED, id="2", user="system:node:a", time=at(95), revision=63)
    earlier = msgspec.structs.replace(
        DELETED, id="0", user="bob", time=at(85), uid="uid-earlier", revision=40
    )
    gone = why(evidence(nodes=[node("a")], audit=(confirmed, DELETED, earlier)))
    assert gone.summary == f"pod shop/web no longer exists: deleted by alice at {at(90)}"
    held = pod(on="a", status=STOPPED, meta={"deletionTimestamp": at(60), "finalizers": ["example.com/save"]})
    kept = why(evidence(pods=[held], nodes=[node("a")], audit=(confirmed, DELETED, earlier)))
    assert kept.cause.startswith(f"deleted by alice at {at(90)}; ")


def test_a_pod_replaced_from_its_own_document_was_placed_by_nobody() -> None:
    meta = {"annotations": {"fathom.dev/decision": "d-bind"}, "uid": "uid-new"}
    copied = pod(on="a", status=running(reported(ready=True, running=RUNS), conditions=READY), meta=meta)
    placed = decided("bind", node="a")
    answer = why(evidence(pods=[copied], nodes=[node("a")], records=(placed,)))
    assert answer.cause == (
        "it runs on a; it was created with this node, copied from the pod that decision d-bind placed"
    )
    unknown = why(evidence(pods=[copied], nodes=[node("a")]))
    assert unknown.cause == "it runs on a; decision d-bind placed it, and no journal that answers has it"


# Room that no node has.


def test_a_device_that_no_node_has_cannot_be_freed() -> None:
    """The decoy: a taint on the other node."""
    gpu = {"example.com/gpu": "1"}
    limits: Any = {"resources": {"requests": {"cpu": "1", **gpu}, "limits": gpu}}
    spot = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    answer = why(
        evidence(pods=[pod("web", container(**limits))], nodes=[node("a"), node("b", taints=[spot])])
    )
    assert answer.change is not None
    assert answer.change.what == "add a node that has example.com/gpu: none has"


def test_a_capacity_class_that_does_not_exist_is_dropped_as_proposed() -> None:
    """The decoy: a node is cordoned."""
    meta = {"annotations": {"fathom.dev/capacity-class": "recovry"}}
    answer = why(evidence(pods=[pod(meta=meta)], nodes=[node("a"), node("b", unschedulable=True)]))
    assert answer.change is not None
    assert answer.change.what == "drop capacity class recovry from the pod: it does not exist"
    assert answer.change.command == (
        "kubectl -n shop patch pod web --type=json -p "
        """'[{"op":"remove","path":"/metadata/annotations/fathom.dev~1capacity-class"}]'"""
    )


def test_what_a_jobs_pod_asks_for_is_changed_by_replacing_the_job() -> None:
    """The Job makes the same pod again as soon as it is deleted: to replace the pod alone never ends."""
    owner = {"kind": "Job", "name": "load", "uid": "uid-load", "controller": True}
    template = {"metadata": {"labels": {"controller-uid": "7"}}, "spec": {"containers": [container(cpu="9")]}}
    job = {
        "kind": "Job", "metadata": {"namespace": "shop", "name": "load", "uid": "uid-load"},
        "spec": {"selector": {"matchLabels": {"controller-uid": "7"}}, "template": template},
    }  # fmt: skip
    held = pod(cpu="9", meta={"ownerReferences": [owner]})
    answer = why(evidence(pods=[held], nodes=[node("a", cpu="2")], jobs_batch=[job]))
    assert answer.change is not None
    assert answer.change.command == (
        "kubectl -n shop patch job load --type=json -p '["
        '{"op":"remove","path":"/spec/selector"},'
        '{"op":"remove","path":"/spec/template/metadata/labels/controller-uid"},'
        '{"op":"replace","path":"/spec/template/spec/containers/0/resources/requests/cpu","value":"2"}]\''
        " --dry-run=client -o json | kubectl replace --force -f -"
    )


def test_a_pod_that_is_replaced_leaves_its_placement_behind() -> None:
    """Else the new pod would be put on the same node past the scheduler, as placed by a decision that was
    about another pod."""
    marks = {"fathom.dev/decision": "d-1", "fathom.dev/account": "t/z/c", "fathom.dev/simulated": "{}"}
    killed = reported(last=ended(137, "OOMKilled", "peak", signal=9), restarts=2, waiting=BACK_OFF)
    box = container(resources={"limits": {"memory": "64Mi"}})
    placed = pod("web", box, on="node-1", status=running(killed), meta={"annotations": marks})
    answer = why(evidence(pods=[placed], nodes=[node("node-1")]))
    assert answer.change is not None
    assert answer.change.command == (
        "kubectl -n shop patch pod web --type=json -p '["
        '{"op":"remove","path":"/spec/nodeName"},'
        '{"op":"remove","path":"/metadata/annotations/fathom.dev~1account"},'
        '{"op":"remove","path":"/metadata/annotations/fathom.dev~1decision"},'
        '{"op":"replace","path":"/spec/containers/0/resources/limits/memory","value":"128Mi"}]\''
        " --dry-run=client -o json | kubectl replace --force -f -"
    )
    asked_for = pod("web", box, on="node-1", status=running(killed))  # Its author chose the node.
    kept = why(evidence(pods=[asked_for], nodes=[node("node-1")])).change
    assert kept is not None
    assert "remove" not in kept.command
