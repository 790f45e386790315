"""What is installed in a foreign cluster: exactly the rights that are used, and nothing of it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.harness import ADMIN, JANE
from tests.attach.foreign import PODS, Foreign, foreign
from tests.attach.scheduled import accepted
from tests.cli.asking import pod
from tests.cli.steering import Person

from fathom.attach.ask_objects import (
    SERVER_ROLE,
    AskAddress,
    BadAskAddress,
    ask_objects,
    parse_ask_address,
    serving_questions,
)
from fathom.attach.findings import AttachFinding, findings_of, is_possible, readable
from fathom.attach.installed import objects_to_install
from fathom.attach.installing import INSTALLED, NotInstalled, install, objects_of_our_kinds, remove
from fathom.attach.kinds import MIRRORED
from fathom.attach.rights import Right, observing, rules_of, scheduling
from fathom.attach.survey import Survey, survey
from fathom.cli.cluster.attach import lacks_installed, refuse_fight
from fathom.cli.cluster.leases import check_namespace
from fathom.cli.problem import Problem
from fathom.client.api import Api
from fathom.client.once import api_of
from fathom.kinds.override_policy import AUTHOR, Vouching
from fathom.model.errors import ApiError

KINDS = (
    "api/v1/namespaces", "api/v1/serviceaccounts", "api/v1/pods", "api/v1/secrets", "api/v1/configmaps",
    "apis/rbac.authorization.k8s.io/v1/clusterroles", "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "apis/rbac.authorization.k8s.io/v1/roles", "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "apis/coordination.k8s.io/v1/leases", "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "apis/apiregistration.k8s.io/v1/apiservices", "api/v1/services",
    "apis/discovery.k8s.io/v1/endpointslices",
)  # fmt: skip


def told(story: Callable[[Foreign, Api], Awaitable[None]], tmp_path: Path) -> None:
    async def main() -> None:
        async with foreign(tmp_path) as cluster, api_of(cluster.address()) as api:
            await story(cluster, api)

    asyncio.run(main())


async def dump(cluster: Foreign) -> dict[str, Any]:
    """Every object, without versions and times."""
    found = {}
    for path in KINDS:
        for item in (await cluster.api.get(f"/{path}")).obj["items"]:
            meta = item["metadata"]
            if path.endswith("/leases") and meta["namespace"].startswith("kube-"):
                continue  # A Kubernetes renews those of its own parts all the time.
            for varying in ("resourceVersion", "managedFields"):
                meta.pop(varying, None)
            found[f"{path} {meta.get('namespace', '')}/{meta['name']}"] = item
    return found


def test_detach_leaves_the_cluster_as_it_was_before_attach(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        made = pod("web", "1")
        assert (await cluster.api.post(PODS, made)).status == 201
        before = await dump(cluster)
        lines = await install(api, objects_to_install(observe_only=False))
        assert len(lines) == 16
        assert "created namespace fathom-system" in lines
        assert "created customresourcedefinition scheduleroverrides.fathom.dev" in lines
        assert await install(api, objects_to_install(observe_only=True)) != lines  # They are there already.
        marked = {"metadata": {"annotations": {"fathom.dev/decision": "d-1", "mine": "stays"}}}
        await cluster.api.patch(f"{PODS}/web", marked)
        retrying = {"status": {"conditions": [{"type": "SchedulingRetrying", "status": "True"}]}}
        await cluster.api.patch(f"{PODS}/web/status", retrying, kind="strategic")
        lease = {"metadata": {"name": "scheduler-fathom"}, "spec": {}}
        await cluster.api.post("/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases", lease)
        assert await dump(cluster) != before
        removed = await remove(api)
        assert removed[:3] == [
            "removed lease fathom-system/scheduler-fathom",
            "removed fathom.dev/decision of pod default/web",
            "removed condition SchedulingRetrying of pod default/web",
        ]
        await cluster.api.patch(
            f"{PODS}/web", {"metadata": {"annotations": None}}
        )  # What the test itself added.
        assert await dump(cluster) == before
        assert await remove(api) == []

    told(story, tmp_path)


ASK_API = AskAddress("192.0.2.10", 6445)


@pytest.mark.parametrize("address", [ASK_API, AskAddress("", 6445)])
def test_detach_removes_what_leads_to_us_first(tmp_path: Path, address: AskAddress) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        before = await dump(cluster)
        objects = accepted(objects_to_install(observe_only=True, ask_api=address))
        lines = await install(api, objects)
        assert lines[-1] == "created apiservice v1alpha1.ask.fathom.dev"
        assert ("created endpointslice fathom-system/fathom-ask" in lines) == (address is ASK_API)
        removed = await remove(api)
        assert removed[:2] == [
            "removed apiservice v1alpha1.ask.fathom.dev", "removed service fathom-system/fathom-ask",
        ]  # fmt: skip
        assert await dump(cluster) == before

    told(story, tmp_path)


def test_the_check_says_where_the_questions_of_kubectl_go(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        async def row(address: AskAddress | None) -> tuple[str, str, str]:
            seen = await survey(api, cluster.url, [*observing(), *serving_questions()])
            findings = findings_of(seen, observe_only=True, ask_api=address)
            (found,) = [each for each in findings if each.check == "kubectl's questions"]
            return found.state, found.found, found.cost

        none = "no APIService v1alpha1.ask.fathom.dev"
        lack = "kubectl there reads no decisions and explanations"
        assert await row(None) == ("no", none, f"{lack}: --ask-api ADDRESS:PORT serves them")
        assert await row(ASK_API) == ("no", none, f"{lack}: it is installed, with your consent")
        await install(api, accepted(objects_to_install(observe_only=True, ask_api=ASK_API)))
        leads = "APIService v1alpha1.ask.fathom.dev leads to 192.0.2.10:6445"
        assert await row(None) == await row(ASK_API) == ("yes", leads, "")
        elsewhere = await row(AskAddress("192.0.2.11", 6445))
        assert elsewhere[:2] == ("needed", f"{leads}, not to 192.0.2.11:6445")
        assert (await row(AskAddress("", 6445)))[0] == "needed"

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.10:6445", AskAddress("192.0.2.10", 6445)),
        ("[2001:db8::1]:6445", AskAddress("2001:db8::1", 6445)),
        (":6445", AskAddress("", 6445)),
    ],
)
def test_an_address_is_read(text: str, address: AskAddress) -> None:
    assert parse_ask_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["192.0.2.10", "192.0.2.10:", "192.0.2.10:0", "a.example:6445", "127.0.0.1:6445", "0.0.0.0:1", "[::1]:1"],
)
def test_an_address_that_no_api_server_could_reach_is_refused(text: str) -> None:
    with pytest.raises(BadAskAddress, match="--ask-api"):
        parse_ask_address(text)


def test_who_serves_questions_may_do_three_things_more_and_reads_no_secrets() -> None:
    asked = ask_objects(AskAddress("", 6445), account="fathom", labels={"app.kubernetes.io/name": "fathom"})
    (role,) = [
        obj for obj in asked if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == SERVER_ROLE
    ]
    assert role["rules"] == [
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        {
            "apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"],
            "resourceNames": ["v1alpha1.ask.fathom.dev"], "verbs": ["get", "patch"],
        },
    ]  # fmt: skip


OVERRIDES = "/apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides"
OVERRIDE = {
    "apiVersion": "fathom.dev/v1alpha1", "kind": "SchedulerOverride",
    "metadata": {"name": "avoid-a", "annotations": {AUTHOR: "admin"}},
    "spec": {
        "target": "workload/web", "scope": "cluster", "reason": "r", "expiresAfter": "5m",
        "changes": {"avoidZones": ["a"]},
    },
}  # fmt: skip


@pytest.mark.slow
def test_overrides_can_be_written_where_their_kind_was_installed_and_go_with_it(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        before = await dump(cluster)
        assert (await cluster.api.post(OVERRIDES, OVERRIDE)).status == 404
        lines = await install(api, accepted(objects_to_install(observe_only=False)))
        assert [line for line in lines if not line.startswith("created ")] == []
        seen = await survey(api, cluster.url, ALL)
        assert (seen.has_overrides, seen.is_fathom, lacks_installed(seen)) == (True, False, False)
        assert [(row.check, row.state) for row in findings_of(seen, observe_only=False)[-2:]] == [
            ("overrides", "yes"),
            ("policy fathom-overrides", "yes"),
        ]
        assert readable(seen) == list(MIRRORED)
        created = await cluster.api.post(OVERRIDES, OVERRIDE)
        assert (created.status, created.obj.get("status")) == (201, None)
        wrong = {**OVERRIDE, "metadata": {"name": "b"}, "spec": {"target": "workload/web"}}
        assert (await cluster.api.post(OVERRIDES, wrong)).status == 422
        assert await objects_of_our_kinds(api) == ["scheduleroverride default/avoid-a"]
        removed = await remove(api)
        assert removed[:3] == [
            "removed customresourcedefinition scheduleroverrides.fathom.dev",
            "removed validatingadmissionpolicybinding fathom-overrides",
            "removed validatingadmissionpolicy fathom-overrides",
        ]
        assert await dump(cluster) == before
        assert (await cluster.api.get(OVERRIDES)).status == 404

    told(story, tmp_path)


def test_every_object_passes_the_strict_check_of_its_schema(tmp_path: Path) -> None:
    """Policies too: of them the schema is all that this server checks."""

    async def story(cluster: Foreign, api: Api) -> None:
        for obj in accepted(objects_to_install(observe_only=False)):
            path = INSTALLED[obj["kind"]].path(obj["metadata"].get("namespace", ""))
            dry_run = "" if obj["kind"] == "Namespace" else "&dryRun=All"  # The others are in it.
            answer = await cluster.api.post(f"{path}?fieldValidation=Strict{dry_run}", obj)
            assert answer.status == 201, answer.obj

    told(story, tmp_path)


def test_detach_names_what_people_wrote_and_asks(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        await install(api, objects_to_install(observe_only=False))
        await cluster.api.post(OVERRIDES, OVERRIDE)
        before, admin = await dump(cluster), Person(cluster.url, tmp_path, ADMIN)
        code, out, err = await admin.fathom("detach")
        assert (code, out) == (2, "goes with its kind: scheduleroverride default/avoid-a\n")
        assert "there is no terminal to ask at" in err
        assert await dump(cluster) == before
        code, out, err = await admin.fathom("detach", "--yes")
        assert code == 0, err
        assert "removed customresourcedefinition scheduleroverrides.fathom.dev" in out.splitlines()
        assert (await admin.fathom("detach", "--yes"))[1] == "nothing of fathom's is there\n"

    told(story, tmp_path)


def test_a_kind_of_overrides_that_somebody_else_installed_stays_with_its_objects(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        theirs = [
            {**obj, "metadata": {"name": obj["metadata"]["name"]}}
            for obj in objects_to_install(observe_only=False)
            if obj["kind"] == "CustomResourceDefinition"
        ]
        await install(api, theirs)
        assert (await cluster.api.post(OVERRIDES, OVERRIDE)).status == 201
        await install(api, objects_to_install(observe_only=False))
        assert await objects_of_our_kinds(api) == []
        await remove(api)
        assert (await cluster.api.get(f"{OVERRIDES}/avoid-a")).status == 200

    told(story, tmp_path)


def test_a_policy_that_the_server_refuses_does_not_keep_anybody_from_scheduling(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        lines = await install(api, objects_to_install(observe_only=False))
        refused = [line for line in lines if "so overrides do nothing" in line]
        assert [line.split(" was not created")[0] for line in refused] == [
            "validatingadmissionpolicy fathom-overrides",
            "validatingadmissionpolicybinding fathom-overrides",
        ]
        assert "created clusterrolebinding fathom-scheduler" in lines

    told(story, tmp_path)


def test_what_somebody_else_made_stays(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        theirs = {"metadata": {"name": "fathom-system", "labels": {"team": "platform"}}}
        await cluster.api.post("/api/v1/namespaces", theirs)
        await install(api, objects_to_install(observe_only=False))
        await remove(api)
        kept = await cluster.api.get("/api/v1/namespaces/fathom-system")
        assert (kept.status, kept.obj["metadata"]["labels"]["team"]) == (200, "platform")
        left = await cluster.api.get("/apis/rbac.authorization.k8s.io/v1/namespaces/fathom-system/roles")
        assert left.obj["items"] == []

    told(story, tmp_path)


def test_detach_waits_for_no_scheduler_that_still_runs(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        await install(api, objects_to_install(observe_only=False))
        lease = {"metadata": {"name": "scheduler-fathom"}, "spec": {"holderIdentity": "me_1"}}
        await cluster.api.post("/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases", lease)
        before = await dump(cluster)
        with pytest.raises(NotInstalled, match="a scheduler still runs as me_1: stop it first"):
            await remove(api)
        assert await dump(cluster) == before

    told(story, tmp_path)


def test_a_server_without_the_namespace_of_the_lease_is_named(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        with pytest.raises(Problem, match=r"has no namespace fathom-system, .*`fathom attach`"):
            await check_namespace(cluster.address(), "fathom-system/scheduler")
        await check_namespace(cluster.address(), "default/scheduler")
        await check_namespace(cluster.address(), "")

    told(story, tmp_path)


ALL = [*observing(), *scheduling()]


def test_an_administrator_lacks_nothing(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        seen = await survey(api, cluster.url, ALL)
        assert seen == Survey(
            url=cluster.url, version=seen.version, is_fathom=False,
            absent=frozenset({"scheduleroverrides.fathom.dev"}), denied=frozenset(),
            has_watch_list=True, leader="", has_namespace=False, has_policies=True,
            vouching=Vouching(None, "there is no ValidatingAdmissionPolicy fathom-overrides"),
        )  # fmt: skip
        findings = findings_of(seen, observe_only=False)
        assert is_possible(findings)
        assert findings[-3:] == [
            AttachFinding(
                "namespace fathom-system", "no", "not installed", "it is created, with your consent"
            ),
            AttachFinding(
                "overrides", "no", "scheduleroverrides.fathom.dev is not installed",
                "it is installed, with your consent",
            ),
            AttachFinding(
                "policy fathom-overrides", "no", "there is no ValidatingAdmissionPolicy fathom-overrides",
                "every override is Declined: NoEnforcer, until it is installed, with your consent",
            ),
        ]  # fmt: skip
        assert readable(seen) == [kind for kind in MIRRORED if kind.kind != "SchedulerOverride"]
        assert lacks_installed(seen)

    told(story, tmp_path)


def test_a_user_without_rights_learns_what_each_lack_costs(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        async with api_of(cluster.address(JANE)) as limited:
            seen = await survey(limited, cluster.url, ALL)
        assert seen.denied == frozenset(ALL)
        findings = findings_of(seen, observe_only=False)
        assert not is_possible(findings)
        rows = {finding.check: (finding.state, finding.cost) for finding in findings}
        assert rows["pods"] == ("needed", "nothing can be observed")
        assert rows["events"] == ("no", "who scheduled a pod, and what kubelets say, is not known")
        assert rows["create pods/binding"] == ("needed", "it cannot schedule")
        assert rows["delete pods"] == ("no", "pods of higher priority preempt none")

    told(story, tmp_path)


def test_a_kind_that_is_allowed_in_one_namespace_is_read_there() -> None:
    hidden = Right(("get", "list", "watch"), "coordination.k8s.io", "leases", "", False, "kube-system")
    seen = Survey(
        url="u", version="v", is_fathom=False, absent=frozenset({"cronjobs.batch"}),
        denied=frozenset({hidden}), has_watch_list=False, leader="", has_namespace=False,
    )  # fmt: skip
    kinds = {kind.name: kind.namespaces for kind in readable(seen)}
    assert kinds["leases.coordination.k8s.io"] == ("fathom-system",)
    assert "cronjobs.batch" not in kinds
    assert len(kinds) == len(MIRRORED) - 1


def test_a_fathom_of_our_own_is_not_attached_to() -> None:
    seen = Survey(
        url="u", version="v", is_fathom=True, absent=frozenset(), denied=frozenset(), has_watch_list=True,
        leader="", has_namespace=True,
    )  # fmt: skip
    assert not is_possible(findings_of(seen, observe_only=True))


def test_the_pods_of_a_kube_scheduler_that_leads_are_left_to_it() -> None:
    seen = Survey(
        url="u", version="v", is_fathom=False, absent=frozenset(), denied=frozenset(), has_watch_list=True,
        leader="master-1_ab", has_namespace=True,
    )  # fmt: skip
    with pytest.raises(Problem, match=r"kube-scheduler \(master-1_ab\) takes the pods of default-scheduler"):
        refuse_fight(seen, ("default-scheduler",))
    refuse_fight(seen, ("fathom",))
    refuse_fight(msgspec.structs.replace(seen, leader=""), ("default-scheduler",))


def test_an_observer_may_only_read_and_sees_no_secrets() -> None:
    rules = [rule for obj in objects_to_install(observe_only=True) for rule in obj.get("rules") or ()]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {kind.resource.plural for kind in MIRRORED}
    assert not resources & {"secrets", "configmaps", "*"}


def test_a_scheduler_may_write_what_it_writes_and_no_more() -> None:
    writes = {
        (verb, resource)
        for rule in rules_of(scheduling())
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if verb not in {"get", "list", "watch"}
    }
    assert writes == {
        ("create", "pods/binding"), ("patch", "pods/status"), ("delete", "pods"), ("create", "events"),
        ("patch", "events"), ("patch", "scheduleroverrides/status"), ("patch", "persistentvolumeclaims"),
        ("patch", "persistentvolumes"),
    }  # fmt: skip


def test_a_server_that_does_not_answer_is_an_error_not_an_empty_survey(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api) -> None:
        async with api_of(cluster.address("nobody")) as unknown:
            with pytest.raises(ApiError, match="Unauthorized"):
                await survey(unknown, cluster.url, ALL)

    told(story, tmp_path)
