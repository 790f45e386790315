"""The ConfigMap with the brake's limits: what it does not know is refused when it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api, tell

from fathom.model.objects import Obj

PATH = "/api/v1/namespaces/fathom-system/configmaps"
ONE = f"{PATH}/node-brake"


def brake(name: str = "node-brake", **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"evictions": "2"}, "data[evictions]"),
        ({"Engaged": "true"}, "data[Engaged]"),
        ({"engaged": "yes"}, "data[engaged]"),
        ({"share_percent": "lots"}, "data[share_percent]"),
        ({"share_percent": "-1"}, "data[share_percent]"),
        ({"share_percent": "²"}, "data[share_percent]"),
        ({"evictions_per_minute": "1.5"}, "data[evictions_per_minute]"),
        ({"evictions_per_minute": "9" * 40}, "data[evictions_per_minute]"),
        ({"flips_per_minute": ""}, "data[flips_per_minute]"),
    ],
)
def test_what_the_brake_does_not_know_is_refused(data: dict[str, str], field: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        refused = await api.post(PATH, brake(**data))
        assert refused.status == 422
        assert [one for one, _ in refused.causes] == [field]
        made = await api.post(PATH, brake(share_percent="40"))
        assert made.status == 201
        refused = await api.patch(ONE, {"data": data})
        assert (refused.status, [one for one, _ in refused.causes]) == (422, [field])
        assert (await api.get(ONE)).obj["data"] == {"share_percent": "40"}

    tell(story, tmp_path)


def test_a_misspelt_limit_is_answered_with_those_there_are(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        refused = await api.post(PATH, brake(evictions="2"))
        for name in ("share_percent", "small_zone", "flips_per_minute", "evictions_per_minute", "engaged"):
            assert name in refused.obj["message"]

    tell(story, tmp_path)


def test_binary_data_is_no_limit(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        refused = await api.post(PATH, {**brake(), "binaryData": {"engaged": "dHJ1ZQ=="}})
        assert (refused.status, [one for one, _ in refused.causes]) == (422, ["binaryData[engaged]"])

    tell(story, tmp_path)


def test_every_limit_can_be_set_and_other_config_maps_are_as_ever(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        whole: dict[str, Any] = {
            "share_percent": "40",
            "small_zone": "3",
            "flips_per_minute": "10",
            "evictions_per_minute": "0",
            "global_factor": "2",
            "engaged": "True",
        }
        assert (await api.post(PATH, brake(**whole))).status == 201
        assert (await api.post(PATH, brake("other", evictions="2"))).status == 201
        elsewhere = "/api/v1/namespaces/default/configmaps"
        assert (await api.post(elsewhere, brake(evictions="2"))).status == 201

    tell(story, tmp_path)
