"""Lists: selectors, pages, revisions, forms."""

from __future__ import annotations

from pathlib import Path

from tests.api.harness import Api, config_map, pod, tell

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


async def _maps(api: Api, count: int) -> None:
    for index in range(count):
        body = config_map(f"m{index:02}")
        body["metadata"]["labels"] = {"even": str(index % 2 == 0).lower()}
        assert (await api.post(MAPS, body)).status == 201


def _names(listed: dict[str, object]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]  # type: ignore[attr-defined]  # JSON


def test_labels_and_fields_choose(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _maps(api, 4)
        await api.post(PODS, pod("p1"))
        even = await api.get(f"{MAPS}?labelSelector=even%3Dtrue")
        named = await api.get(f"{MAPS}?fieldSelector=metadata.name%3Dm01")
        unbound = await api.get(f"{PODS}?fieldSelector=spec.nodeName%3D")
        bound = await api.get(f"{PODS}?fieldSelector=spec.nodeName%3Dn1")
        assert [_names(found.obj) for found in (even, named, unbound, bound)] == [
            ["m00", "m02"],
            ["m01"],
            ["p1"],
            [],
        ]

    tell(story, tmp_path)


def test_bad_selectors_are_bad_requests(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for query in (
            "labelSelector=a+in+b",
            "fieldSelector=spec.foo%3D1",
            "limit=x",
            "continue=!!",
            "limit=-1",
        ):
            answer = await api.get(f"{MAPS}?{query}")
            assert (query, answer.status, answer.reason) == (query, 400, "BadRequest")

    tell(story, tmp_path)


def test_pages_show_one_revision_whatever_happens_in_between(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _maps(api, 7)
        first = (await api.get(f"{MAPS}?limit=3")).obj
        await api.delete(f"{MAPS}/m05")
        await api.post(MAPS, config_map("m035"))
        token, names = first["metadata"]["continue"], _names(first)
        assert first["metadata"]["remainingItemCount"] == 4
        while token:
            page = (await api.get(f"{MAPS}?limit=3&continue={token}")).obj
            assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            names += _names(page)
            token = page["metadata"].get("continue")
        assert names == [f"m{index:02}" for index in range(7)]

    tell(story, tmp_path)


def test_pages_of_a_selection_are_complete(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _maps(api, 9)
        names, token = [], ""
        while True:
            page = (await api.get(f"{MAPS}?labelSelector=even%3Dtrue&limit=2&continue={token}")).obj
            names += _names(page)
            assert "remainingItemCount" not in page["metadata"]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert names == ["m00", "m02", "m04", "m06", "m08"]

    tell(story, tmp_path)


def test_a_page_of_compacted_history_offers_a_way_on(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _maps(api, 5)
        token = (await api.get(f"{MAPS}?limit=2")).obj["metadata"]["continue"]
        await api.delete(f"{MAPS}/m03")
        await api.core.store.compact(await api.core.store.revision())
        expired = await api.get(f"{MAPS}?limit=2&continue={token}")
        assert (expired.status, expired.reason) == (410, "Expired")
        again = await api.get(f"{MAPS}?continue={expired.obj['metadata']['continue']}")
        assert _names(again.obj) == ["m02", "m04"]

    tell(story, tmp_path)


def test_a_list_at_an_exact_revision_shows_the_past(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _maps(api, 2)
        then = (await api.get(MAPS)).obj["metadata"]["resourceVersion"]
        await api.delete(f"{MAPS}/m00")
        past = await api.get(f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")
        newer = await api.get(f"{MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan")
        assert (_names(past.obj), _names(newer.obj)) == (["m00", "m01"], ["m01"])

    tell(story, tmp_path)


def test_revision_parameters_that_contradict_are_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for query in (
            "resourceVersionMatch=Exact",
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersion=1&resourceVersionMatch=Newest",
            "resourceVersion=x",
        ):
            assert ((await api.get(f"{MAPS}?{query}")).status, query) == (422, query)

    tell(story, tmp_path)


def test_a_revision_of_the_future_times_out(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.get(f"{MAPS}?resourceVersion=999999999&resourceVersionMatch=Exact")
        assert (answer.status, answer.reason) == (504, "Timeout")

    tell(story, tmp_path)


def test_a_table_has_a_row_per_object(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("p1"))
        accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
        table = (await api.get(PODS, headers=accept)).obj
        columns = [column["name"] for column in table["columnDefinitions"]]
        assert (table["kind"], columns[:4]) == ("Table", ["Name", "Ready", "Status", "Restarts"])
        assert table["rows"][0]["cells"][:4] == ["p1", "0/1", "Pending", "0"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

    tell(story, tmp_path)


def test_metadata_alone_can_be_asked_for(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a", x="1"))
        accept = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        listed = (await api.get(MAPS, headers=accept)).obj
        item = next(item for item in listed["items"] if item["metadata"]["name"] == "a")
        assert (listed["kind"], "data" in item) == ("PartialObjectMetadataList", False)

    tell(story, tmp_path)


def test_other_media_types_are_not_acceptable(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.get(MAPS, headers={"accept": "application/vnd.kubernetes.protobuf"})
        assert answer.status == 406

    tell(story, tmp_path)
