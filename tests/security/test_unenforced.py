"""What fathom stores and does not act on is said when it is written; what others rely on for their safety is
refused unless its writer accepts that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api, config_map, deployment, pod, tell

from fathom.model.body import Body
from fathom.model.objects import Obj
from fathom.model.times import timestamp
from fathom.store.protocol import Expect, Put

ACCEPT = "fathom.dev/accept-unenforced"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
HOOK = {
    "name": "check.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/check"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
POLICY = {
    "matchConstraints": {"resourceRules": []},
    "validations": [{"expression": "object.spec.replicas <= 5"}],
}
BINDING = {"policyName": "p", "validationActions": ["Deny"]}
MUTATES = {
    "matchConstraints": {"resourceRules": []},
    "reinvocationPolicy": "Never",
    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
}
SERVICE = {
    "group": "other.example.com",
    "version": "v1",
    "groupPriorityMinimum": 1000,
    "versionPriority": 15,
    "insecureSkipTLSVerify": True,
    "service": {"namespace": "default", "name": "other"},
}

# Path, kind, and what it says.
REFUSED: tuple[tuple[str, str, Obj], ...] = (
    (f"{ADMISSION}/validatingwebhookconfigurations", "ValidatingWebhookConfiguration", {"webhooks": [HOOK]}),
    (f"{ADMISSION}/mutatingwebhookconfigurations", "MutatingWebhookConfiguration", {"webhooks": [HOOK]}),
    (f"{ADMISSION}/validatingadmissionpolicies", "ValidatingAdmissionPolicy", {"spec": POLICY}),
    (f"{ADMISSION}/validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", {"spec": BINDING}),
    (f"{ADMISSION}/mutatingadmissionpolicies", "MutatingAdmissionPolicy", {"spec": MUTATES}),
    (
        f"{ADMISSION}/mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        {"spec": {"policyName": "p"}},
    ),
    ("/apis/apiregistration.k8s.io/v1/apiservices", "APIService", {"spec": SERVICE}),
)
NAME = "v1.other.example.com"


def made(kind: str, fields: Obj, **annotations: str) -> Obj:
    meta: Obj = {"name": NAME, **({"annotations": annotations} if annotations else {})}
    return {"kind": kind, "metadata": meta, **fields}


def accepted(kind: str, fields: Obj) -> Obj:
    return made(kind, fields, **{ACCEPT: "true"})


async def said(api: Api, method: str, path: str, body: Any) -> list[str]:
    """All that a write is warned of; it succeeds."""
    headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
    answer = await api.raw(method, path, body, headers=headers)
    assert answer.status in {200, 201}, answer
    found = [value for name, value in answer.headers if name.lower() == "warning"]
    return [text.partition('"')[2].rpartition('"')[0].replace('\\"', '"') for text in found]


@pytest.mark.parametrize(("path", "kind", "fields"), REFUSED, ids=[one[1] for one in REFUSED])
def test_what_others_rely_on_is_refused_unless_it_is_accepted(
    tmp_path: Path, path: str, kind: str, fields: Obj
) -> None:
    async def story(api: Api) -> None:
        refused = await api.post(path, made(kind, fields))
        assert (refused.status, refused.reason) == (403, "Forbidden"), refused.obj
        assert f'set the annotation {ACCEPT}: "true"' in refused.obj["message"]
        assert refused.causes[0][1] == "Unenforced"
        for value in ("false", "yes", ""):
            assert (await api.post(path, made(kind, fields, **{ACCEPT: value}))).status == 403
        assert (await api.post(f"{path}?dryRun=All", made(kind, fields))).status == 403
        told = await said(api, "POST", path, accepted(kind, fields))
        assert len(told) == 1
        assert "kept, but fathom" in told[0]

    tell(story, tmp_path)


@pytest.mark.parametrize(("path", "kind", "fields"), REFUSED, ids=[one[1] for one in REFUSED])
def test_no_update_takes_the_acceptance_away(tmp_path: Path, path: str, kind: str, fields: Obj) -> None:
    async def story(api: Api) -> None:
        assert (await api.post(path, accepted(kind, fields))).status == 201
        one = f"{path}/{NAME}"
        gone = {"metadata": {"annotations": None}}
        for how in ("merge", "strategic"):
            assert (await api.patch(one, gone, how)).status == 403
        away = [{"op": "remove", "path": "/metadata/annotations"}]
        assert (await api.patch(one, away, "json")).status == 403
        whole = (await api.get(one)).obj
        whole["metadata"].pop("annotations")
        assert (await api.put(one, whole)).status == 403
        label = {"metadata": {"labels": {"a": "b"}}}
        assert await said(api, "PATCH", one, label) == []
        assert (await api.delete(one)).status == 200

    tell(story, tmp_path)


def test_webhooks_cannot_be_added_later_without_a_word(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path, kind, fields = REFUSED[0]
        assert (await api.post(path, made(kind, {"webhooks": []}))).status == 201
        assert (await api.patch(f"{path}/{NAME}", fields)).status == 403
        local = {
            name: value for name, value in SERVICE.items() if name not in {"service", "insecureSkipTLSVerify"}
        }
        path = REFUSED[-1][0]
        assert (await api.post(path, made("APIService", {"spec": local}))).status == 201
        assert (await api.patch(f"{path}/{NAME}", {"spec": {"service": SERVICE["service"]}})).status == 403

    tell(story, tmp_path)


def test_one_that_was_stored_before_can_be_labelled_and_removed(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path, kind, fields = REFUSED[0]
        resource = "validatingwebhookconfigurations.admissionregistration.k8s.io"
        old = accepted(kind, fields)
        old["metadata"]["finalizers"] = ["a.b/c"]
        stored = (await api.post(path, old)).obj
        revision = int(stored["metadata"].pop("resourceVersion"))
        del stored["metadata"]["annotations"]
        key = f"/registry/{resource}/{NAME}"
        done = await api.core.store.commit((Expect(key, revision),), (Put(key, Body(stored)),))
        await api.core.wait_for(done.revision)
        one = f"{path}/{NAME}"
        assert (await api.patch(one, {"metadata": {"labels": {"a": "b"}}})).status == 200
        assert (await api.delete(one)).status == 200
        assert (await api.patch(one, {"metadata": {"finalizers": None}})).status == 200
        assert (await api.get(one)).status == 404

    tell(story, tmp_path)


WARNED: tuple[tuple[str, Obj, str], ...] = (
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        {"kind": "NetworkPolicy", "spec": {"podSelector": {}}},
        "NetworkPolicy: kept, but fathom does not enforce it: all traffic is allowed",
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        {"kind": "FlowSchema", "spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
        "FlowSchema: kept, but fathom limits requests by its own rules, not by this one",
    ),
    (
        "/apis/node.k8s.io/v1/runtimeclasses",
        {"kind": "RuntimeClass", "handler": "gvisor"},
        "handler: kept, but fathom's agents run every pod in the same way; only overhead and scheduling "
        "take effect",
    ),
    (
        "/api/v1/namespaces",
        {"kind": "Namespace", "metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
        "metadata.labels.pod-security.kubernetes.io/enforce: kept, but fathom does not enforce pod security "
        "standards: pods that violate them are accepted",
    ),
    (
        "/api/v1/namespaces/default/services",
        {"kind": "Service", "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
        "spec.type: kept, but fathom creates no load balancer: only the cluster IP and node ports are served",
    ),
    (
        "/api/v1/namespaces/default/services",
        {"kind": "Service", "spec": {"ports": [{"port": 53, "protocol": "UDP"}]}},
        "spec.ports[].protocol: kept, but fathom serves TCP only",
    ),
    (
        "/apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides",
        {
            "kind": "SchedulerOverride",
            "apiVersion": "fathom.dev/v1alpha1",
            "spec": {
                "target": "workload/web",
                "scope": "cluster",
                "reason": "incident",
                "expiresAfter": "10m",
                "changes": {"pauseRepair": True},
            },
        },
        "spec.changes.pauseRepair: kept, but fathom does not pause repair",
    ),
    (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {
            "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        "PersistentVolumeClaim: kept, but fathom does not provision, bind, attach or mount volumes",
    ),
)


@pytest.mark.parametrize(("path", "obj", "sentence"), WARNED, ids=[str(one[1]["kind"]) for one in WARNED])
def test_what_nobody_acts_on_is_warned_of_when_it_is_written(
    tmp_path: Path, path: str, obj: Obj, sentence: str
) -> None:
    async def story(api: Api) -> None:
        whole = {**obj, "metadata": {"name": "one", **obj.get("metadata", {})}}
        told = await said(api, "POST", path, whole)
        assert [each for each in told if not each.startswith("spec.target:")] == [sentence]
        # It has been said: who only labels it hears nothing.
        assert await said(api, "PATCH", f"{path}/one", {"metadata": {"annotations": {"a": "b"}}}) == []

    tell(story, tmp_path)


STATEFUL: Obj = {
    "kind": "StatefulSet",
    "metadata": {"name": "db"},
    "spec": {
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "db"}]},
        },
    },
}


def test_a_stateful_set_is_warned_of_only_while_nobody_acts_on_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        sets = "/apis/apps/v1/namespaces/default/statefulsets"
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        alone = ["StatefulSet: kept, but fathom has no controller for it: no pods will be created"]
        assert await said(api, "POST", f"{sets}?dryRun=All", STATEFUL) == alone
        now_ns = api.core.outside.clock.now_ns()
        spec = {
            "holderIdentity": "kcm",
            "leaseDurationSeconds": 15,
            "renewTime": timestamp(now_ns).replace("Z", ".000000Z"),
        }
        await api.post(leases, {"metadata": {"name": "kube-controller-manager"}, "spec": spec})
        assert await said(api, "POST", f"{sets}?dryRun=All", STATEFUL) == []
        old = {"spec": {"renewTime": timestamp(now_ns - 60 * 10**9).replace("Z", ".000000Z")}}
        assert (await api.patch(f"{leases}/kube-controller-manager", old)).status == 200
        assert await said(api, "POST", f"{sets}?dryRun=All", STATEFUL) == alone

    tell(story, tmp_path)


def guarded(name: str = "p") -> Obj:
    made = pod(name)
    made["spec"] |= {
        "hostIPC": True,
        "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "9"}]},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }
    made["spec"]["containers"][0]["securityContext"] = {
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return made


SENTENCES = (
    "{at}: kept, but fathom's agents do not enforce hostIPC, "
    "containers[].securityContext.readOnlyRootFilesystem, containers[].securityContext.seccompProfile.type",
    "{at}: kept, but fathom's agents do not act on securityContext.sysctls",
    "{at}: kept, but fathom's agents cannot mount, so containers that use it will not start: "
    "volumes[].persistentVolumeClaim",
)


def test_the_fields_of_a_pod_that_agents_do_not_act_on_are_named_in_a_few_sentences(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        pods, deployments = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments"
        assert await said(api, "POST", pods, guarded()) == [one.format(at="spec") for one in SENTENCES]
        many = deployment("web")
        container = guarded()["spec"]["containers"][0]
        many["spec"]["template"]["spec"] = guarded()["spec"] | {
            "containers": [{**container, "name": f"c{number}"} for number in range(200)]
        }
        told = await said(api, "POST", deployments, many)
        assert told == [one.format(at="spec.template.spec") for one in SENTENCES]

    tell(story, tmp_path)


def test_what_everybody_writes_is_not_warned_of(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        core = "/api/v1/namespaces/default"
        service = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
        plain: tuple[tuple[str, Obj], ...] = (
            ("/apis/apps/v1/namespaces/default/deployments", deployment("nginx-deployment", 3)),
            (f"{core}/services", service),
            (f"{core}/configmaps", config_map("c", a="b")),
            (f"{core}/pods", pod("p")),
            ("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "team"}}),
            (f"{core}/serviceaccounts", {"kind": "ServiceAccount", "metadata": {"name": "robot"}}),
        )
        for path, obj in plain:
            assert await said(api, "POST", path, obj) == [], obj

    tell(story, tmp_path)
