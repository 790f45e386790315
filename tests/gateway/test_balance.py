"""Who gets the next connection, while tables change under those that are open."""

from __future__ import annotations

from collections import Counter

from fathom.gateway.balance import Balancer
from fathom.gateway.routes import RouteEndpoint, RouteListener


def endpoint(name: str, pool: str = "", *, leaving: bool = False) -> RouteEndpoint:
    return RouteEndpoint(f"127.64.0.{name}", 80, f"s/{name}", pool=pool, leaving=leaving)


def listener(*endpoints: RouteEndpoint, sticky_s: int = 0, **weights: int) -> RouteListener:
    return RouteListener(
        "127.97.0.9",
        80,
        "s/web",
        sticky_s=sticky_s,
        weights=tuple(sorted(weights.items())),
        endpoints=endpoints,
    )


def opened(balancer: Balancer, number: int) -> list[RouteEndpoint]:
    """So many connections, all still open."""
    found = []
    for _ in range(number):
        chosen = balancer.pick("c", now_s=0.0)
        assert chosen is not None
        balancer.connected(chosen)
        found.append(chosen)
    return found


def by_pod(found: list[RouteEndpoint]) -> dict[str, int]:
    return dict(Counter(each.pod for each in found))


def test_what_is_open_to_an_endpoint_is_known_while_it_is_away_and_when_it_comes_back() -> None:
    a, b = endpoint("1"), endpoint("2")
    balancer = Balancer(listener(a, b))
    early = opened(balancer, 8)
    balancer.change(listener(b))
    balancer.change(listener(a, b))
    assert by_pod(opened(balancer, 2)) == {"s/1": 1, "s/2": 1}
    for each in early:
        balancer.closed(each)
    assert by_pod(opened(balancer, 4)) == {"s/1": 2, "s/2": 2}


def test_a_route_that_comes_or_goes_does_not_make_anybody_look_idle() -> None:
    balancer = Balancer(listener(endpoint("1"), endpoint("2")))
    early = opened(balancer, 6)
    balancer.change(listener(endpoint("1", "zone/a"), endpoint("2", "zone/b"), **{"zone/a": 1, "zone/b": 1}))
    for each in early[:3]:
        balancer.closed(each)
    balancer.change(listener(endpoint("1"), endpoint("2")))
    assert by_pod(early[3:] + opened(balancer, 5)) == {"s/1": 4, "s/2": 4}


def test_new_weights_hold_from_the_next_connection_whatever_the_old_ones_were() -> None:
    pods = (endpoint("1", "zone/a"), endpoint("2", "zone/b"))
    balancer = Balancer(listener(*pods, **{"zone/a": 1_000_000, "zone/b": 1}))
    opened(balancer, 3)
    balancer.change(listener(*pods, **{"zone/a": 1, "zone/b": 1}))
    assert by_pod(opened(balancer, 10)) == {"s/1": 5, "s/2": 5}


def test_a_client_that_keeps_its_endpoint_leaves_a_pool_whose_weight_is_nought() -> None:
    pods = (endpoint("1", "zone/a"), endpoint("2", "zone/b"))
    balancer = Balancer(listener(*pods, sticky_s=100, **{"zone/a": 1, "zone/b": 0}))
    assert by_pod(opened(balancer, 3)) == {"s/1": 3}
    balancer.change(listener(*pods, sticky_s=100, **{"zone/a": 0, "zone/b": 1}))
    assert by_pod(opened(balancer, 3)) == {"s/2": 3}


def test_a_client_keeps_its_endpoint_when_a_route_comes() -> None:
    balancer = Balancer(listener(endpoint("1"), endpoint("2"), sticky_s=100))
    (first,) = opened(balancer, 1)
    routed = (endpoint("1", "zone/a"), endpoint("2", "zone/b"))
    balancer.change(listener(*routed, sticky_s=100, **{"zone/a": 1, "zone/b": 1}))
    assert by_pod(opened(balancer, 3)) == {first.pod: 3}


def test_a_client_does_not_keep_an_endpoint_that_is_leaving() -> None:
    balancer = Balancer(listener(endpoint("1"), endpoint("2"), sticky_s=100))
    (first,) = opened(balancer, 1)
    other = "2" if first.pod == "s/1" else "1"
    going = endpoint(first.pod[2:], leaving=True)
    balancer.change(listener(*sorted((going, endpoint(other))), sticky_s=100))
    assert by_pod(opened(balancer, 2)) == {f"s/{other}": 2}


def test_who_comes_new_takes_its_turn_and_not_all_that_it_has_missed() -> None:
    balancer = Balancer(listener(endpoint("1")))
    for _ in range(100):
        (one,) = opened(balancer, 1)
        balancer.closed(one)
    balancer.change(listener(endpoint("1"), endpoint("2")))
    found = []
    for _ in range(10):
        (one,) = opened(balancer, 1)
        balancer.closed(one)
        found.append(one)
    assert by_pod(found) == {"s/1": 5, "s/2": 5}


def test_many_who_come_before_the_first_is_connected_are_spread() -> None:
    balancer = Balancer(listener(endpoint("1"), endpoint("2"), endpoint("3")))
    found = [one for _ in range(9) if (one := balancer.pick("c", now_s=0.0)) is not None]
    assert by_pod(found) == {"s/1": 3, "s/2": 3, "s/3": 3}
