"""The official Python client: watches that resume, and leases that elect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from tests.clients.kubectl import eventually
from tests.clients.official import config_map
from tests.clients.running import Server

WATCH_S = 20


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Any]:
    with config.new_client_from_config(str(server.kubeconfig)) as made:
        yield made


@pytest.fixture(scope="module")
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


def test_a_watch_tells_of_objects_and_their_changes(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("a"))
    watching, seen = watch.Watch(), []
    for event in watching.stream(core.list_namespaced_config_map, namespace, timeout_seconds=WATCH_S):
        obj = event["object"]
        assert isinstance(obj, client.V1ConfigMap)
        seen.append((event["type"], obj.metadata.name))
        if len(seen) == 1:
            core.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
            core.create_namespaced_config_map(namespace, config_map("b"))
            core.delete_namespaced_config_map("a", namespace)
        if event["type"] == "DELETED":
            watching.stop()
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_watch_is_resumed_where_it_stopped(core: Any, namespace: str) -> None:
    start = core.list_namespaced_config_map(namespace).metadata.resource_version
    for name in "abcdef":
        core.create_namespaced_config_map(namespace, config_map(name))
    seen: list[str] = []
    for _ in range(3):
        watching = watch.Watch()
        stream = watching.stream(
            core.list_namespaced_config_map, namespace, resource_version=start, timeout_seconds=WATCH_S
        )
        for _ in range(2):
            seen.append(next(stream)["object"].metadata.name)
        start = watching.resource_version
        stream.close()
    assert seen == [*"abcdef"]


def test_a_watch_ends_at_its_timeout(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("a"))
    events = watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=1)
    assert [event["object"].metadata.name for event in events] == ["a"]


def test_a_watch_goes_on_after_the_server_ended_it(core: Any, namespace: str) -> None:
    """Without a timeout of its own the client connects again by itself, from the last revision it saw."""
    watching, seen = watch.Watch(), []

    def ends_soon(*arguments: Any, **options: Any) -> Any:
        return core.list_namespaced_config_map(*arguments, **options, timeout_seconds=1)

    ends_soon.__doc__ = core.list_namespaced_config_map.__doc__
    ends_soon.__annotations__ = core.list_namespaced_config_map.__annotations__
    core.create_namespaced_config_map(namespace, config_map("a"))
    late = threading.Timer(1.5, core.create_namespaced_config_map, (namespace, config_map("b")))
    late.start()
    for event in watching.stream(ends_soon, namespace):
        obj = event["raw_object"]
        seen.append(obj["metadata"]["name"])
        if seen[-1] == "b":
            break
    assert seen == ["a", "b"]


def test_a_watch_of_the_future_is_refused(core: Any, namespace: str) -> None:
    with pytest.raises(client.ApiException) as raised:
        list(
            watch.Watch().stream(
                core.list_namespaced_config_map, namespace, resource_version="999999999", timeout_seconds=5
            )
        )
    assert raised.value.status == 504


# Leases


class Over(Exception):
    """The test is."""


class Lock(LeaseLock):  # type: ignore[misc]  # has no annotations
    """A lock that can be taken from its candidate, who would go on for ever."""

    over = False

    def get(self, name: str, namespace: str) -> Any:
        if self.over:
            raise Over
        return super().get(name, namespace)


class Candidate:
    """One process of several that want to lead, as the client's own module does it."""

    def __init__(self, name: str, namespace: str, told: list[str]) -> None:
        self._told, self._name = told, name
        self.lock = lock = Lock("leader", namespace, name)
        options = electionconfig.Config(
            lock,
            lease_duration=4,
            renew_deadline=3,
            retry_period=1.01,  # The module takes nothing quicker.
            onstarted_leading=self._lead,
            onstopped_leading=lambda: None,
        )
        self._election = leaderelection.LeaderElection(options)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with suppress(Over):
            self._election.run()

    def _lead(self) -> None:
        self._told.append(self._name)


def test_the_client_s_own_leader_election_elects_one(
    server: Server, api: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        client.CoordinationV1Api, "__init__", _bound_to(api, client.CoordinationV1Api.__init__)
    )
    told: list[str] = []
    candidates = [Candidate(name, namespace, told) for name in ("one", "two")]
    for candidate in candidates:
        candidate.thread.start()
    eventually(lambda: told)
    leases = client.CoordinationV1Api(api)
    first = leases.read_namespaced_lease("leader", namespace)
    assert first.spec.holder_identity == told[0]
    eventually(
        lambda: leases.read_namespaced_lease("leader", namespace).spec.renew_time > first.spec.renew_time
    )
    assert len(told) == 1
    for candidate in candidates:
        candidate.lock.over = True
        candidate.thread.join(10)


def _bound_to(api: Any, original: Callable[..., None]) -> Callable[..., None]:
    """The module makes its own API from the process' default configuration: here, from this client."""

    def bound(self: Any, api_client: Any = None) -> None:
        original(self, api_client or api)

    return bound
