"""Services have addresses and node ports of their own."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tests.api.harness import Api, tell

from fathom.api.admission.addresses import ADDRESSES
from fathom.api.own_service import own_addresses, own_service
from fathom.model.objects import Obj

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, kind: str = "ClusterIP", **spec: Any) -> Obj:
    ports = [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": ports, **spec}}


def test_a_service_gets_an_address_and_keeps_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        made = (await api.post(SERVICES, service("a"))).obj
        address = made["spec"]["clusterIP"]
        assert IPv4Address(address) in ADDRESSES
        assert made["spec"]["clusterIPs"] == [address]
        again = await api.put(f"{SERVICES}/a", service("a", selector={"x": "y"}))
        assert (again.status, again.obj["spec"]["clusterIP"]) == (200, address)

    tell(story, tmp_path)


def test_an_address_is_had_by_one_and_free_when_it_goes(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.post(SERVICES, service("a", clusterIP="127.96.1.1"))).status == 201
        taken = await api.post(SERVICES, service("b", clusterIP="127.96.1.1"))
        assert (taken.status, taken.causes) == (422, [("spec.clusterIPs", "FieldValueInvalid")])
        await api.delete(f"{SERVICES}/a")
        assert (await api.post(SERVICES, service("b", clusterIP="127.96.1.1"))).status == 201

    tell(story, tmp_path)


def test_of_many_that_want_one_address_at_once_one_gets_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        wanted = (api.post(SERVICES, service(f"s{n}", clusterIP="127.96.7.7")) for n in range(8))
        statuses = sorted(answer.status for answer in await asyncio.gather(*wanted))
        assert statuses == [201] + [422] * 7

    tell(story, tmp_path)


def test_an_address_from_elsewhere_is_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.post(SERVICES, service("a", clusterIP="10.0.0.1"))
        assert answer.status == 422
        assert "The range of valid IPs is 127.96.0.0/12" in answer.obj["message"]

    tell(story, tmp_path)


def test_families_that_the_cluster_does_not_have_are_refused_by_name(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for spec, field, words in (
            ({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]", "not configured on this cluster"),
            (
                {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"},
                "spec.ipFamilies[1]",
                "not configured on this cluster",
            ),
            ({"ipFamilyPolicy": "RequireDualStack"}, "spec.ipFamilyPolicy", "not configured for dual-stack"),
        ):
            answer = await api.post(SERVICES, service("a", selector={"x": "y"}, **spec))
            assert (answer.status, answer.causes) == (422, [(field, "FieldValueInvalid")])
            assert words in answer.obj["message"]
        prefers = await api.post(SERVICES, service("a", ipFamilyPolicy="PreferDualStack"))
        assert (prefers.status, prefers.obj["spec"]["ipFamilies"]) == (201, ["IPv4"])

    tell(story, tmp_path)


def test_headless_and_external_services_have_none(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        headless = (await api.post(SERVICES, service("h", clusterIP="None"))).obj["spec"]
        external = (await api.post(SERVICES, service("e", "ExternalName", externalName="x.org"))).obj["spec"]
        assert (headless["clusterIP"], "clusterIP" in external) == ("None", False)

    tell(story, tmp_path)


def test_node_ports_are_given_and_given_back(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        ports = [{"port": 80, "name": "a", "nodePort": 30080}, {"port": 81, "name": "b"}]
        made = (await api.post(SERVICES, service("n", "NodePort", ports=ports))).obj["spec"]
        assert made["ports"][0]["nodePort"] == 30080
        assert 30000 <= made["ports"][1]["nodePort"] <= 32767
        assert (await api.post(SERVICES, service("m", "NodePort", ports=ports))).status == 422
        outside = [{"port": 80, "nodePort": 80}]
        assert (await api.post(SERVICES, service("o", "NodePort", ports=outside))).status == 422
        await api.patch(
            f"{SERVICES}/n", {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "name": "a"}]}}
        )
        assert (await api.post(SERVICES, service("m", "NodePort", ports=ports))).status == 201

    tell(story, tmp_path)


def test_a_dry_run_claims_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.post(f"{SERVICES}?dryRun=All", service("a", clusterIP="127.96.2.2"))).status == 201
        assert (await api.post(SERVICES, service("b", clusterIP="127.96.2.2"))).status == 201

    tell(story, tmp_path)


def test_clusters_of_one_machine_have_addresses_of_their_own() -> None:
    usual, other = list(own_addresses(6443)), list(own_addresses(7447))
    assert (usual[:2], other[:2]) == (["127.96.0.1", "127.96.0.2"], ["127.96.0.112", "127.96.0.113"])
    assert sorted(usual) == sorted(other)
    assert len(set(usual)) == 254
    service = own_service(other[0], 443)
    assert service["spec"]["clusterIPs"] == [service["spec"]["clusterIP"]] == ["127.96.0.112"]
