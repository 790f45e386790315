"""Questions by POST and by GET: who may ask, what the answer contains, and what is missing in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.api.harness import JANE, Api, pod
from tests.ask.processes import OWN, AskedProcess
from tests.ask.test_decisions import asked, decision, outcome
from tests.security.people import grant, namespaces

from fathom.ask.views import QUESTIONS_MAX
from fathom.model.decision import Decision, Subject
from fathom.model.objects import Obj
from fathom.record.audit_reading import read_entries

WHERE = f"{OWN}/namespaces/default/explanations"


def node(name: str, cpu: str = "4") -> Obj:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "reason": "ok", "message": ""}],
    }
    return {"metadata": {"name": name}, "status": status}


def question(name: str, **fields: object) -> Obj:
    return {
        "kind": "Explanation",
        "apiVersion": "fathom.dev/v1alpha1",
        "spec": {"subject": {"kind": "Pod", "name": name}, **fields},
    }


def placed(pod_made: Obj) -> Decision:
    meta = pod_made["metadata"]
    return decision("a-1", "web-1", subject=Subject("pods", "default", "web-1", meta["uid"]))


def test_a_question_is_answered_with_its_status_and_stored_nowhere(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await api.post("/api/v1/nodes", node("node-1"))
        made = await api.post("/api/v1/namespaces/default/pods", pod("web-1"))
        scheduler.journal.decided(placed(made.obj))
        scheduler.journal.concluded(outcome("a-1", 42))
        before = api.core.cache.reached
        answer = await api.post(WHERE, question("web-1"))
        assert answer.status == 201
        assert answer.obj["metadata"] == {"name": "pod.web-1", "namespace": "default"}
        assert answer.obj["spec"] == {"subject": {"kind": "Pod", "name": "web-1"}}
        assert [each["id"] for each in answer.obj["status"]["decisions"]] == ["a-1"]
        by_name = await api.get(f"{WHERE}/pod.web-1")
        assert by_name.status == 200
        assert by_name.obj["status"] == answer.obj["status"]
        assert api.core.cache.reached == before
        api.audit.flush()
        assert not list(read_entries(tmp_path / "audit", resource="explanations.fathom.dev"))

    asked(story, tmp_path)


def test_whoever_may_get_the_subject_may_ask_and_nobody_else(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await namespaces(api, "team")
        await grant(api, "jane", "view", "team")
        await api.post("/api/v1/nodes", node("node-1"))
        await api.post("/api/v1/namespaces/default/pods", pod("web-1"))
        await api.post("/api/v1/namespaces/team/pods", pod("db-1"))
        refused = await api.post(WHERE, question("web-1"), token=JANE)
        assert (refused.status, 'cannot get resource "pods"' in refused.obj["message"]) == (403, True)
        assert (await api.get(f"{WHERE}/pod.web-1", token=JANE)).status == 403
        assert (await api.get(f"{WHERE}/pod.nobody", token=JANE)).status == 403
        assert (await api.get(f"{WHERE}/node.node-1", token=JANE)).status == 403
        mine = await api.get(f"{OWN}/namespaces/team/explanations/pod.db-1", token=JANE)
        assert mine.status == 200
        elsewhere = question("web-1", subject={"kind": "Pod", "namespace": "default", "name": "web-1"})
        answer = await api.post(f"{OWN}/namespaces/team/explanations", elsewhere, token=JANE)
        assert answer.status == 400

    asked(story, tmp_path)


def test_a_question_that_cannot_be_understood_says_why(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        for path, text in (
            (f"{WHERE}/web-1", "KIND.NAME"),
            (f"{WHERE}/thing.web-1", "there is no kind 'thing'"),
        ):
            answer = await api.get(path)
            assert (answer.status, text in answer.obj["message"]) == (400, True), path
        nobody = await api.get(f"{WHERE}/pod.nobody")
        assert (nobody.status, nobody.reason) == (404, "NotFound")
        assert nobody.obj["message"] == "there is no pod default/nobody, and nothing is on record about one"
        assert (await api.get(WHERE)).status == 405
        assert (await api.delete(f"{WHERE}/pod.web-1")).status == 405
        assert (await api.post(WHERE, {"spec": {}})).status in {400, 422}

    asked(story, tmp_path)


def test_an_answer_names_the_process_that_was_silent(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await api.post("/api/v1/namespaces/default/pods", pod("web-1"))
        await scheduler.stop()
        answer = await api.get(f"{WHERE}/pod.web-1")
        assert answer.status == 200
        assert [gap["source"] for gap in answer.obj["status"]["gaps"]] == ["journal of deciders"]

    asked(story, tmp_path)


def workload(name: str) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_a_workload_has_a_why_a_status_and_a_place_in_the_list_of_what_is_stuck(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await namespaces(api, "team")
        await grant(api, "jane", "view", "team")
        await api.post("/apis/apps/v1/namespaces/team/deployments", workload("web"))
        await api.post("/apis/apps/v1/namespaces/default/deployments", workload("other"))
        where = f"{OWN}/namespaces/team/explanations"
        why = await api.get(f"{where}/deployment.web", token=JANE)
        assert (why.status, why.obj["status"]["asWanted"]) == (200, False)
        asked_about = {"kind": "Deployment", "name": "web"}
        status = await api.post(where, question("", subject=asked_about, view="status"), token=JANE)
        assert status.status == 201, status.obj
        assert status.obj["status"]["pendingReplicas"]["value"] == ["2 not created"]
        nothing = question("", subject={"kind": "Deployment", "name": "nothing"}, view="status")
        assert (await api.post(where, nothing, token=JANE)).status == 404
        unknown = question("", subject=asked_about, view="gossip")
        assert (await api.post(where, unknown, token=JANE)).status in {400, 422}
        in_team = question("", subject={"kind": "Namespace", "name": "team"}, view="stuck")
        system = f"{OWN}/namespaces/fathom-system/explanations"
        listed = await api.post(system, in_team, token=JANE)
        assert listed.status == 201, listed.obj
        assert [item["subject"]["name"] for item in listed.obj["status"]["items"]] == ["web"]
        elsewhere = question("", subject={"kind": "Namespace", "name": "default"}, view="stuck")
        assert (await api.post(system, elsewhere, token=JANE)).status == 403
        everywhere = question("", subject={"kind": "Namespace"}, view="stuck")
        hers, all_of_it = [
            {item["subject"]["name"] for item in answer.obj["status"]["items"]}
            for answer in (
                await api.post(system, everywhere, token=JANE),
                await api.post(system, everywhere),
            )
        ]
        assert hers == {"web"}
        assert all_of_it >= {"web", "other"}

    asked(story, tmp_path)


def test_what_is_stuck_names_who_cordoned_a_node(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await api.post("/api/v1/nodes", node("node-1"))
        await api.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}})
        api.audit.flush()
        system = f"{OWN}/namespaces/fathom-system/explanations"
        everywhere = question("", subject={"kind": "Namespace"}, view="stuck")
        items = (await api.post(system, everywhere)).obj["status"]["items"]
        (about,) = [item for item in items if item["subject"]["resource"] == "nodes"]
        assert about["cause"].startswith("cordoned by admin, "), about["cause"]
        await api.post("/api/v1/namespaces/default/pods", pod("web-1"))
        waits = (await api.post(WHERE, question("web-1"))).obj["status"]
        (detail,) = [detail for detail in waits["details"] if detail["title"] == "cordon"]
        assert detail["lines"][0].startswith("node-1 was cordoned by admin, "), detail

    asked(story, tmp_path)


def test_what_if_assumes_a_patch_and_writes_nothing(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await api.post("/api/v1/nodes", {**node("node-1"), "spec": {"unschedulable": True}})
        await api.post("/api/v1/namespaces/default/pods", pod("web-1"))
        on_node = {"kind": "Node", "name": "node-1"}
        system = f"{OWN}/namespaces/fathom-system/explanations"
        cordoned = await api.post(system, question("", subject=on_node))
        assert not cordoned.obj["status"]["asWanted"]
        ready = '{"conditions":[{"type":"Ready","status":"True"}]}'
        patch = f'node/node-1={{"spec":{{"unschedulable":null}},"status":{ready}}}'
        assumed = await api.post(system, question("", subject=on_node, whatIf=[patch]))
        assert assumed.obj["status"]["asWanted"], assumed.obj
        stored = await api.get("/api/v1/nodes/node-1")
        assert stored.obj["spec"]["unschedulable"]
        for wrong in ("node/node-1", "thing/x={}", "node/node-1={"):
            assert (await api.post(system, question("", subject=on_node, whatIf=[wrong]))).status == 400

    asked(story, tmp_path)


def test_a_question_about_the_past_is_answered_from_the_store_as_it_was_then(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        gated = pod("web-1")
        gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        made = await api.post("/api/v1/namespaces/default/pods", gated)
        then = made.obj["metadata"]["resourceVersion"]
        await api.patch("/api/v1/namespaces/default/pods/web-1", {"spec": {"schedulingGates": None}})
        api.audit.flush()
        now = await api.post(WHERE, question("web-1"))
        before = await api.post(WHERE, question("web-1", at=then))
        gates = ["example.com/wait" in str(answer.obj["status"]) for answer in (now, before)]
        assert gates == [False, True]
        as_of = before.obj["status"]["asOf"]
        assert (as_of["revision"], as_of["source"]) == (int(then), "store")
        by_time = await api.post(WHERE, question("web-1", at=as_of["time"]))
        assert by_time.obj["status"] == before.obj["status"]
        for at in ("yesterday", "999999", "2999-01-01T00:00:00Z"):
            assert (await api.post(WHERE, question("web-1", at=at))).status == 400
        for at in ("2001-01-01T00:00:00Z", "5h"):
            gone = await api.post(WHERE, question("web-1", at=at))
            assert (gone.status, gone.reason) == (410, "Expired")
            assert "no data: the audit log does not go back to" in gone.obj["message"]
        moments_ago = await api.post(WHERE, question("web-1", at="1us"))
        assert "example.com/wait" not in str(moments_ago.obj["status"])
        assert moments_ago.obj["status"]["asOf"]["source"] == "store"

    asked(story, tmp_path)


def test_a_timeline_is_answered_with_the_writes_of_the_object_and_who_made_them(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await api.post("/api/v1/namespaces/default/pods", pod("web-1"))
        labels = {"metadata": {"labels": {"tier": "front"}}}
        await api.patch("/api/v1/namespaces/default/pods/web-1", labels)
        api.audit.flush()
        answer = await api.get(f"{OWN}/namespaces/default/timelines/pod.web-1")
        assert answer.status == 200, answer.obj
        writes = [entry["text"] for entry in answer.obj["status"]["entries"] if entry["source"] == "audit"]
        assert len(writes) == 2, answer.obj["status"]["entries"]
        assert (await api.get(f"{OWN}/namespaces/default/timelines/pod.web-1", token=JANE)).status == 403

    asked(story, tmp_path)


def test_coupling_names_the_writers_of_a_field_and_refuses_an_unknown_controller(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await api.post("/apis/apps/v1/namespaces/default/deployments", workload("web"))
        await api.patch("/apis/apps/v1/namespaces/default/deployments/web", {"spec": {"replicas": 5}})
        api.audit.flush()
        where = f"{OWN}/namespaces/default/couplings"
        about = {"subject": {"kind": "Deployment", "name": "web"}, "field": "spec.replicas"}
        head = {"kind": "Coupling", "apiVersion": "fathom.dev/v1alpha1"}
        answer = await api.post(where, {**head, "spec": about})
        assert answer.status == 201, answer.obj
        assert answer.obj["status"]["observed"], answer.obj["status"]
        controller = await api.post(where, {**head, "spec": {"controller": "autoscaling"}})
        assert controller.obj["status"]["inputs"], controller.obj
        nobody = await api.post(where, {**head, "spec": {"controller": "nobody"}})
        assert (nobody.status, nobody.reason) == (404, "NotFound")

    asked(story, tmp_path)


def test_more_questions_than_the_server_answers_at_once_are_told_to_come_again(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await api.post("/api/v1/namespaces/default/pods", pod("web-1"))
        asks = [api.get(f"{WHERE}/pod.web-1") for _ in range(QUESTIONS_MAX + 8)]
        answers = await asyncio.gather(*asks)
        statuses = sorted(answer.status for answer in answers)
        assert statuses == [200] * QUESTIONS_MAX + [429] * 8
        assert (await api.get(f"{WHERE}/pod.web-1")).status == 200

    asked(story, tmp_path)
