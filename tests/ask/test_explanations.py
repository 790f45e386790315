"""Questions by POST and by GET: who may ask, what the answer contains, and what is missing in it."""

from __future__ import annotations

from pathlib import Path

from tests.api.harness import JANE, Api, pod
from tests.ask.processes import OWN, AskedProcess
from tests.ask.test_decisions import asked, decision, outcome
from tests.security.people import grant, namespaces

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
        assert answer.obj["status"]["attempt"]["id"] == "a-1"
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
        assert (await api.get(f"{WHERE}/pod.nobody")).status == 404
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
        assert (now.obj["status"]["state"], before.obj["status"]["state"]) == ("unschedulable", "gated")
        as_of = before.obj["status"]["asOf"]
        assert (as_of["revision"], as_of["source"]) == (int(then), "store")
        by_time = await api.post(WHERE, question("web-1", at=as_of["time"]))
        assert by_time.obj["status"] == before.obj["status"]
        for at in ("yesterday", "999999"):
            assert (await api.post(WHERE, question("web-1", at=at))).status == 400
        assert (await api.post(WHERE, question("web-1", at="2001-01-01T00:00:00Z"))).status == 410

    asked(story, tmp_path)
