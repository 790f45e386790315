"""Which addresses a Service has, objects in and plan out."""

from __future__ import annotations

from typing import Any

from tests.controllers.making import meta, pod

from fathom.control.ownership import owned
from fathom.control.plan import NOTHING, Plan
from fathom.controllers.endpoints.plan import (
    MANAGED_BY,
    MANAGER,
    NEEDS,
    SLICE_ENDPOINTS_MAX,
    plan_endpoints,
    plan_slices,
    ports_of,
    stray_of,
)
from fathom.model.objects import Key, Obj
from fathom.model.well_known import SERVICE_NAME_LABEL

LABELS = {SERVICE_NAME_LABEL: "web", MANAGED_BY: MANAGER}


def service(**spec: Any) -> Obj:
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta("web"),
        "spec": {"selector": {"app": "web"}, "ports": ports, "ipFamilies": ["IPv4"], **spec},
    }


def at_address(name: str, ip: str, **options: Any) -> Obj:
    return pod(name, podIP=ip, **options)


def endpoint(name: str, ip: str, *, ready: bool = True, going: bool = False, serving: bool = True) -> Obj:
    return {
        "addresses": [ip],
        "conditions": {"ready": ready, "serving": serving, "terminating": going},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": name, "uid": f"uid-{name}"},
        "nodeName": "node-1",
    }


def slice_of(name: str, *endpoints: Obj) -> Obj:
    return {
        "metadata": meta(name, labels=LABELS),
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


def contents(plan: Plan) -> dict[str, list[str]]:
    """Which pods each slice will have, as far as the plan changes it."""
    made = {one.obj["metadata"]["name"]: one.obj["endpoints"] for one in plan.creates}
    changed = {one.target.key.name: one.patch["endpoints"] for one in plan.patches}
    return {name: [one["targetRef"]["name"] for one in some] for name, some in (made | changed).items()}


def test_ready_and_going_pods_are_told_apart() -> None:
    pods = (
        at_address("a", "10.0.0.1"),
        at_address("b", "10.0.0.2", ready=False),
        at_address("c", "10.0.0.3", going=True),
        at_address("d", "10.0.0.4", phase="Succeeded"),
        at_address("e", ""),
        at_address("f", "10.0.0.6", labels={"app": "db"}),
    )
    plan = plan_slices(service(), pods, [], zone_of=lambda node: "zone-a" if node == "node-1" else "")
    (create,) = plan.creates
    made = create.obj
    assert made["metadata"]["name"] == "web-ipv4-0"
    assert made["metadata"]["labels"] == LABELS
    assert made["metadata"]["ownerReferences"][0]["name"] == "web"
    assert (made["addressType"], made["ports"]) == (
        "IPv4",
        [{"name": "http", "port": 8080, "protocol": "TCP"}],
    )
    assert made["endpoints"] == [
        {**endpoint("a", "10.0.0.1"), "zone": "zone-a"},
        {**endpoint("b", "10.0.0.2", ready=False, serving=False), "zone": "zone-a"},
        {**endpoint("c", "10.0.0.3", ready=False, going=True), "zone": "zone-a"},
    ]


def test_nothing_is_written_where_nothing_is_new() -> None:
    there = slice_of("web-ipv4-0", endpoint("a", "10.0.0.1"))
    assert plan_slices(service(), [at_address("a", "10.0.0.1")], [there]) == NOTHING


def test_addresses_that_are_not_ready_are_published_where_the_service_says_so() -> None:
    plan = plan_slices(service(publishNotReadyAddresses=True), [at_address("a", "10.0.0.1", ready=False)], [])
    assert plan.creates[0].obj["endpoints"][0]["conditions"] == {
        "ready": True,
        "serving": False,
        "terminating": False,
    }


def test_a_port_by_name_is_looked_up_in_each_pod() -> None:
    named = service(ports=[{"name": "http", "port": 80, "targetPort": "web"}])
    one, other, without = (at_address(name, f"10.0.0.{n}") for n, name in enumerate("abc", 1))
    one["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 8080}]
    other["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 9090}]
    plan = plan_slices(named, [one, other, without], [])
    assert contents(plan) == {"web-ipv4-0": ["a"], "web-ipv4-1": ["b"], "web-ipv4-2": ["c"]}
    ports = [[port["port"] for port in create.obj["ports"]] for create in plan.creates]
    assert ports == [[8080], [9090], []]


def test_an_endpoint_stays_in_its_slice_and_a_new_one_fills_the_fullest() -> None:
    first = slice_of("web-ipv4-0", endpoint("a", "10.0.0.1"), endpoint("gone", "10.0.0.9"))
    second = slice_of("web-ipv4-1", endpoint("b", "10.0.0.2"), endpoint("c", "10.0.0.3"))
    pods = [at_address(name, f"10.0.0.{n}") for n, name in enumerate("abcd", 1)]
    plan = plan_slices(service(), pods, [first, second])
    assert contents(plan) == {"web-ipv4-0": ["a"], "web-ipv4-1": ["b", "c", "d"]}


def test_more_than_fit_into_one_slice_make_another_under_a_free_name() -> None:
    pods = [at_address(f"p{n:03}", f"10.0.{n // 200}.{n % 200}") for n in range(SLICE_ENDPOINTS_MAX + 1)]
    plan = plan_slices(service(), pods, [], named=lambda name: name == "web-ipv4-1")
    assert {name: len(some) for name, some in contents(plan).items()} == {"web-ipv4-0": 100, "web-ipv4-2": 1}


def test_the_last_slice_stays_empty_and_others_go() -> None:
    first, second = (
        slice_of("web-ipv4-0", endpoint("a", "10.0.0.1")),
        slice_of("web-ipv4-1", endpoint("b", "10.0.0.2")),
    )
    plan = plan_slices(service(), [], [first, second])
    assert contents(plan) == {"web-ipv4-0": []}
    assert [delete.line for delete in plan.deletes] == ["delete EndpointSlice default/web-ipv4-1"]
    assert plan.needs == NEEDS


def test_slices_of_others_and_services_without_a_selector_are_left_alone() -> None:
    foreign = slice_of("mine", endpoint("x", "10.0.0.9"))
    foreign["metadata"]["labels"] = {SERVICE_NAME_LABEL: "web", MANAGED_BY: "me"}
    there = slice_of("web-ipv4-0", endpoint("a", "10.0.0.1"))
    assert plan_slices(service(), [at_address("a", "10.0.0.1")], [foreign, there]) == NOTHING
    assert plan_slices(service(selector={}), [], []) == NOTHING
    assert plan_slices(service(type="ExternalName"), [], []) == NOTHING


def test_endpoints_have_ready_addresses_and_others_apart() -> None:
    pods = [at_address("b", "10.0.0.2", ready=False), at_address("a", "10.0.0.1")]
    (create,) = plan_endpoints(service(), pods, None).creates
    expected = [
        {
            "addresses": [_address("a", "10.0.0.1")],
            "notReadyAddresses": [_address("b", "10.0.0.2")],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }
    ]
    assert create.obj["subsets"] == expected
    there = {"metadata": meta("web", labels=create.obj["metadata"]["labels"]), "subsets": expected}
    assert plan_endpoints(service(), pods, there) == NOTHING
    (patch,) = plan_endpoints(service(), [], there).patches
    assert patch.patch == {"subsets": None}


def _address(name: str, ip: str) -> Obj:
    reference = {"kind": "Pod", "namespace": "default", "name": name, "uid": f"uid-{name}"}
    return {"ip": ip, "targetRef": reference, "nodeName": "node-1"}


# What comes from the Service.


def labelled(**labels: str) -> Obj:
    made = service()
    made["metadata"]["labels"] = labels
    return made


def test_a_label_that_a_service_loses_its_slices_and_endpoints_lose_too() -> None:
    kept = slice_of("s", endpoint("a", "10.0.0.1"))
    kept["metadata"]["labels"] = {**LABELS, "tier": "front", "team": "red"}
    pods = [at_address("a", "10.0.0.1")]
    (patch,) = plan_slices(labelled(team="blue"), pods, [kept]).patches
    assert patch.patch == {"metadata": {"labels": {**LABELS, "tier": None, "team": "blue"}}}
    (made,) = plan_endpoints(labelled(team="red"), pods, None).creates
    assert made.obj["metadata"]["labels"] == {
        "team": "red",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }
    there = {**made.obj, "metadata": {**meta("web"), **made.obj["metadata"]}}
    assert plan_endpoints(labelled(team="red"), pods, there) == NOTHING
    (change,) = plan_endpoints(labelled(), pods, there).patches
    assert change.patch["metadata"]["labels"]["team"] is None


def test_who_is_near_is_hinted_at_where_the_service_prefers_that() -> None:
    pods = [at_address("a", "10.0.0.1"), at_address("b", "10.0.0.2", ready=False)]

    def hints(wish: str | None) -> list[Obj | None]:
        (made,) = plan_slices(
            service(trafficDistribution=wish), pods, [], zone_of=lambda node: "zone-a"
        ).creates
        return [one.get("hints") for one in made.obj["endpoints"]]

    zones = {"forZones": [{"name": "zone-a"}]}
    assert hints(None) == [None, None]
    assert hints("PreferClose") == hints("PreferSameZone") == [zones, None]
    assert hints("PreferSameNode") == [{**zones, "forNodes": [{"name": "node-1"}]}, None]


def test_a_pod_of_a_headless_service_is_known_by_its_hostname() -> None:
    made = at_address("a", "10.0.0.1")
    made["spec"] |= {"hostname": "first", "subdomain": "web"}
    (create,) = plan_endpoints(service(clusterIP="None"), [made], None).creates
    assert create.obj["subsets"][0]["addresses"][0]["hostname"] == "first"
    (sliced,) = plan_slices(service(clusterIP="None"), [made], []).creates
    assert sliced.obj["endpoints"][0]["hostname"] == "first"


class CountedPort(dict[str, Any]):
    """A container's port, and how often any of them is looked at."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        CountedPort.looks += 1
        return super().get(key, default)


def test_names_of_ports_are_looked_up_once_for_each_pod() -> None:
    """A Service and a pod may each have thousands: the product would keep all controllers waiting."""
    count = 500
    listening = pod("p")
    listening["spec"]["containers"] = [
        {"name": "c", "ports": [CountedPort(name=f"n{n}", containerPort=n + 1) for n in range(count)]},
        {"name": "d", "ports": [{"name": "n7", "containerPort": 9999}]},  # The first of a name counts.
    ]
    named = [{"name": f"p{n}", "port": n + 1, "targetPort": f"n{n}"} for n in range(count)]
    many: Obj = {"spec": {"ports": [*named, {"name": "none", "port": 1, "targetPort": "nowhere"}]}}
    CountedPort.looks = 0
    assert [dict(each)["port"] for each in ports_of(many, listening)] == [n + 1 for n in range(count)]
    assert CountedPort.looks <= 5 * count


def test_slices_that_an_earlier_service_left_behind_go() -> None:
    stray, mine = slice_of("web-ipv4-old"), slice_of("web-ipv4-0", endpoint("a", "10.0.0.1"))
    plan = plan_slices(service(), (at_address("a", "10.0.0.1"),), (mine,), strays=(stray,))
    assert [one.target.key.name for one in plan.deletes] == ["web-ipv4-old"]
    assert (plan.creates, plan.patches) == ((), ())


def test_a_slice_that_belongs_to_somebody_or_is_kept_by_hand_is_no_stray() -> None:
    left, by_hand = slice_of("left"), {**slice_of("hand"), "metadata": meta("hand", labels={})}
    assert stray_of(left, MANAGER) == Key("default", "web")
    assert stray_of(by_hand, MANAGER) is stray_of(owned(left, service()), MANAGER) is None
    assert stray_of(left, "another") is None
