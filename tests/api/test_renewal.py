"""A heartbeat takes the short way, and nobody can tell: every body gets the answer of the long one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.api.harness import Answer, Api, tell

from fathom.api.lease_renewal import renewal
from fathom.model.body import Body, encode_json
from fathom.model.objects import Obj
from fathom.store.protocol import Entry

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LONG_WAY = "?fieldManager=test"  # Whatever has a query is no plain heartbeat.
LATER = "2026-01-01T00:00:10.000000Z"

Edit = Callable[[Obj], object]


def lease(name: str) -> Obj:
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    return {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec}


EDITS: dict[str, Edit] = {
    "only the time": lambda _: None,
    "the same time": lambda obj: obj["spec"].update(renewTime="2026-01-01T00:00:00.000000Z"),
    "a time in another form": lambda obj: obj["spec"].update(renewTime="2026-01-01T01:00:10+01:00"),
    "no time": lambda obj: obj["spec"].pop("renewTime"),
    "a time that is none": lambda obj: obj["spec"].update(renewTime="soon"),
    "a time that is a number": lambda obj: obj["spec"].update(renewTime=5),
    "another holder": lambda obj: obj["spec"].update(holderIdentity="b"),
    "no spec": lambda obj: obj.pop("spec"),
    "a spec that is a list": lambda obj: obj.update(spec=[]),
    "a duration that is wrong": lambda obj: obj["spec"].update(leaseDurationSeconds=-1),
    "a null": lambda obj: obj["spec"].update(preferredHolder=None),
    "an unknown field": lambda obj: obj["spec"].update(colour="red"),
    "another label": lambda obj: obj["metadata"]["labels"].update(app="y"),
    "no labels": lambda obj: obj["metadata"].pop("labels"),
    "no annotations": lambda obj: obj["metadata"].pop("annotations"),
    "another kind": lambda obj: obj.update(kind="ConfigMap"),
    "no kind": lambda obj: obj.pop("kind"),
    "no revision": lambda obj: obj["metadata"].pop("resourceVersion"),
    "an old revision": lambda obj: obj["metadata"].update(resourceVersion="1"),
    "another identity": lambda obj: obj["metadata"].update(uid="00000000-0000-4000-8000-000000000000"),
}


def told(answer: Answer, name: str) -> tuple[int, Obj, str]:
    """What the writer learns, without what tells the two leases apart."""
    obj = answer.obj
    meta = {**obj.get("metadata", {}), "uid": "", "resourceVersion": "", "creationTimestamp": ""}
    text = str(obj.get("message", "")).replace(name, "NAME").partition("Precondition failed")[0]
    shown = {**obj, "metadata": {**meta, "name": ""}, "message": text, "details": ""}
    return answer.status, shown, answer.headers.get("warning", "")


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_the_short_way_answers_as_the_long_one(edit: Edit, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answers = []
        for name, query in (("short", ""), ("longy", LONG_WAY)):
            body = (await api.post(LEASES, lease(name))).obj
            body["spec"]["renewTime"] = LATER
            edit(body)
            answer = await api.put(f"{LEASES}/{name}{query}", body)
            answers.append((told(answer, name), told(await api.get(f"{LEASES}/{name}"), name)))
        assert answers[0] == answers[1]

    tell(story, tmp_path)


def test_a_field_that_is_there_twice_is_told(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        body = (await api.post(LEASES, lease("twice"))).obj
        body["spec"]["renewTime"] = LATER
        raw = encode_json(body).replace(b'"leaseDurationSeconds":15', b'"leaseDurationSeconds":15,' * 2)
        raw = raw.replace(b"15,,", b"15,")
        answer = await api.put(f"{LEASES}/twice", raw)
        assert answer.status == 200
        assert "duplicate field" in answer.headers["warning"]

    tell(story, tmp_path)


def test_a_renewal_shares_what_it_leaves_alone_and_changes_nothing_that_is_stored() -> None:
    stored = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", **lease("x")}
    entry = Entry("/registry/leases.coordination.k8s.io/default/x", Body(stored), 7, 3)
    given = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "7"}}
    given["spec"] = {**stored["spec"], "renewTime": LATER}
    before = encode_json(stored)
    renewed = renewal(entry, encode_json(given))
    assert renewed == {**stored, "spec": {**stored["spec"], "renewTime": LATER}}
    assert renewed["metadata"] is stored["metadata"]
    assert encode_json(stored) == before
