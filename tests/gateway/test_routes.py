"""The table that follows from services, endpoints and weights; and who gets a connection by it."""

from __future__ import annotations

from collections import Counter

import pytest

from fathom.agent.node import new_node
from fathom.agent.settings import AgentSettings, Driver
from fathom.gateway.balance import Balancer
from fathom.gateway.routes import RouteEndpoint, RouteListener, SeenObjects, make_table, said_of
from fathom.model.objects import Obj


def service(name: str = "web", **spec: object) -> Obj:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": "127.96.1.1", "ports": ports, **spec},
    }


def endpoint(address: str, name: str, node: str = "", **conditions: bool) -> Obj:
    return {
        "addresses": [address],
        "conditions": conditions or {"ready": True},
        "targetRef": {"kind": "Pod", "namespace": "shop", "name": name, "uid": f"uid-{name}"},
        **({"nodeName": node} if node else {}),
    }


def slice_of(*endpoints: Obj, service_name: str = "web") -> Obj:
    labels = {"kubernetes.io/service-name": service_name}
    return {
        "metadata": {"name": f"{service_name}-1", "namespace": "shop", "labels": labels},
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": list(endpoints),
    }


def node(name: str, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": {key.replace("__", "/"): v for key, v in labels.items()}}}


def route(*weights: Obj) -> Obj:
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"service": "web", "routes": list(weights)},
    }


def test_a_service_listens_at_its_address_for_the_pods_that_are_ready() -> None:
    pods = slice_of(
        endpoint("127.64.0.2", "b"), endpoint("127.64.0.1", "a"), endpoint("127.64.0.3", "c", ready=False)
    )
    assert make_table(SeenObjects([service()], [pods])) == (
        RouteListener(
            "127.96.1.1",
            80,
            "shop/web",
            endpoints=(
                RouteEndpoint("127.64.0.1", 8080, "shop/a", "uid-a"),
                RouteEndpoint("127.64.0.2", 8080, "shop/b", "uid-b"),
            ),
        ),
    )


def test_headless_and_udp_ports_have_no_listener_and_node_ports_have_one_on_each_node() -> None:
    headless = service("none", clusterIP="None")
    udp = service("udp", ports=[{"port": 53, "protocol": "UDP"}])
    outside = service("out", ports=[{"name": "http", "port": 80, "nodePort": 30080}])
    addresses = [{"type": "InternalIP", "address": "127.177.1.1"}, {"type": "Hostname", "address": "n1"}]
    nodes = [
        {**node("n1"), "status": {"addresses": addresses}},
        {**node("n2", **{"fathom.dev/driver": "simulated"}), "status": {"addresses": addresses}},
        {**node("n3"), "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.3"}]}},
    ]
    table = make_table(SeenObjects([headless, udp, outside], [], [], nodes))
    assert [(each.address, each.port) for each in table] == [
        ("127.0.0.1", 30080), ("127.177.1.1", 30080), ("127.96.1.1", 80),
    ]  # fmt: skip


def test_a_pod_that_is_leaving_but_serves_is_kept_as_the_last_resort() -> None:
    leaving = endpoint("127.64.0.1", "old", ready=False, serving=True, terminating=True)
    (listener,) = make_table(SeenObjects([service()], [slice_of(leaving)]))
    assert listener.endpoints == (RouteEndpoint("127.64.0.1", 8080, "shop/old", "uid-old", leaving=True),)


def test_weights_name_pools_by_region_zone_or_label() -> None:
    eu = node("n-eu", topology__x="", **{"topology.kubernetes.io/region": "eu"})
    pods = slice_of(endpoint("127.64.0.1", "a", "n-eu"), endpoint("127.64.0.2", "b"))
    weights = route({"region": "eu", "weight": 9}, {"region": "us", "weight": 1})
    (listener,) = make_table(SeenObjects([service()], [pods], [weights], [eu]))
    assert listener.weights == (("region/eu", 9), ("region/us", 1))
    assert [each.pool for each in listener.endpoints] == ["region/eu", ""]


def test_of_two_routes_the_older_holds_and_each_says_whether_it_does() -> None:
    old, new = route({"zone": "a", "weight": 1}), route({"zone": "b", "weight": 1})
    old["metadata"] |= {"name": "zz", "creationTimestamp": "2026-01-01T00:00:00Z"}
    new["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    slices = [slice_of({**endpoint("127.64.0.1", "a"), "zone": "a"})]
    lost = {"metadata": {"name": "lost", "namespace": "shop"}, "spec": {"service": "none", "routes": []}}
    seen = SeenObjects([service()], slices, [new, old, lost])
    table = make_table(seen)
    assert table[0].weights == (("zone/a", 1),)
    assert said_of(old, seen, table) == ("True", "InForce", "")
    assert said_of(new, seen, table) == (
        "False",
        "AnotherHolds",
        "TrafficRoute zz is older and for the same Service",
    )
    assert said_of(lost, seen, table) == ("False", "NoSuchService", "there is no Service none")
    alone = SeenObjects([service()], slices, [new])
    assert said_of(new, alone, make_table(alone)) == (
        "True",
        "NobodyThere",
        "no endpoint in zone/b: the other pools take its share",
    )


def test_nothing_is_behind_the_addresses_of_a_simulated_node() -> None:
    simulated = node("n1", **{"fathom.dev/driver": "simulated"})
    (listener,) = make_table(
        SeenObjects([service()], [slice_of(endpoint("127.64.0.1", "a", "n1"))], [], [simulated])
    )
    assert [each.real for each in listener.endpoints] == [False]


@pytest.mark.parametrize(("driver", "real"), [("simulated", False), ("process", True)])
def test_an_agent_says_of_its_node_that_it_is_simulated(driver: Driver, real: bool) -> None:
    made = new_node(AgentSettings(node="n1", driver=driver, pod_range="127.64.0"), "2026-01-01T00:00:00Z")
    (listener,) = make_table(
        SeenObjects([service()], [slice_of(endpoint("127.64.0.1", "a", "n1"))], [], [made])
    )
    assert [each.real for each in listener.endpoints] == [real]


# Balancing.


def balancer(*pools: str, sticky_s: int = 0, weights: tuple[tuple[str, int], ...] = ()) -> Balancer:
    endpoints = tuple(RouteEndpoint(f"127.64.0.{n}", 80, f"p/{n}", pool=pool) for n, pool in enumerate(pools))
    return Balancer(RouteListener("127.96.0.1", 80, "p/s", sticky_s, weights, endpoints))


def picked(balancer: Balancer, count: int) -> list[str]:
    found = []
    for number in range(count):
        chosen = balancer.pick(f"client-{number}", now_s=0.0)
        assert chosen is not None
        balancer.connected(chosen)
        balancer.closed(chosen)
        found.append(chosen.pool or chosen.address)
    return found


def test_connections_are_spread_evenly() -> None:
    assert set(Counter(picked(balancer("", "", ""), 30)).values()) == {10}


def test_weights_hold_in_every_stretch_and_not_only_in_the_long_run() -> None:
    found = picked(balancer("eu", "us", weights=(("eu", 9), ("us", 1))), 100)
    assert all(Counter(found[start : start + 10]) == {"eu": 9, "us": 1} for start in range(0, 100, 10))


def test_a_pool_of_weight_nought_gets_nothing_while_there_is_another() -> None:
    shifted = balancer("eu", "us", weights=(("eu", 0), ("us", 100)))
    assert set(picked(shifted, 20)) == {"us"}
    only = balancer("eu", weights=(("eu", 0), ("us", 100)))
    assert (set(picked(only, 3)), only.fell_back) == ({"eu"}, 3)


def test_one_that_cannot_be_reached_is_left_out_for_longer_each_time() -> None:
    two = balancer("", "")
    bad = two.pick("c", now_s=0.0)
    assert bad is not None
    for now_s, out_s in ((0.0, 1.0), (1.0, 2.0), (3.0, 4.0)):
        two.failed(bad, now_s=now_s)
        assert two.pick("c", now_s=now_s + out_s - 0.1) != bad
        assert (
            two.pick("c", now_s=now_s + out_s, tried=[each for each in two.listener.endpoints if each != bad])
            == bad
        )


def test_when_everybody_failed_somebody_is_tried() -> None:
    one = balancer("")
    one.failed(one.listener.endpoints[0], now_s=0.0)
    assert one.pick("c", now_s=0.0) == one.listener.endpoints[0]


def test_a_client_keeps_its_endpoint_while_that_is_there() -> None:
    sticky = balancer("", "", "", sticky_s=60)
    first = sticky.pick("c", now_s=0.0)
    assert first is not None
    sticky.connected(first)
    assert [sticky.pick("c", now_s=30.0), sticky.pick("other", now_s=30.0) == first] == [first, False]
    rest = tuple(each for each in sticky.listener.endpoints if each != first)
    sticky.change(RouteListener("127.96.0.1", 80, "p/s", 60, (), rest))
    assert sticky.pick("c", now_s=31.0) in rest
