"""A kopf operator as a process of its own, over TLS: it converges, and outlives the server's death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.victim import GONE, Victim, eventually, victim
from tests.clients import garden

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "garden"
INSIDE = f"/api/v1/namespaces/{NAMESPACE}"
PLANTS = f"/apis/garden.example.com/v1/namespaces/{NAMESPACE}/plants"
HANDLED = "kopf.zalando.org/last-handled-configuration"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
WAIT_S = 20

STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SPEC = {
    "type": "object",
    "properties": {"size": {"type": "integer", "minimum": 0}, "failures": {"type": "integer"}},
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "plants.garden.example.com"},
    "spec": {
        "group": "garden.example.com",
        "scope": "Namespaced",
        "names": {"plural": "plants", "kind": "Plant"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
                },
                "subresources": {"status": {}},
            }
        ],
    },
}


class Operator:
    """`kopf run`, and what it said."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._log = log
        home = {"HOME": str(log.parent), "KUBECONFIG": str(kubeconfig)}
        command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", NAMESPACE, garden.__file__]
        with log.open("a") as said:
            self._process = subprocess.Popen(
                command, stdout=said, stderr=said, env={**os.environ, **home}, cwd=log.parent
            )

    def stop(self) -> None:
        assert self._process.poll() is None, f"the operator ended:\n{self._log.read_text()}"
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(WAIT_S) == 0, self._log.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Garden:
    """The server, its operator, and what a gardener asks of them."""

    def __init__(self, server: Victim, directory: Path) -> None:
        self.server = server
        self._log = directory / "operator.log"
        self.operator = self.start_operator()

    def start_operator(self) -> Operator:
        self.operator = Operator(self.server.kubeconfig, self._log)
        return self.operator

    def call(self, method: str, path: str, body: Any = None) -> Any:
        with self.server.client() as client:
            media = "application/merge-patch+json" if method == "PATCH" else "application/json"
            return client.call(method, path, body, media=media)

    def plant(self, name: str, **spec: int) -> None:
        body = {"apiVersion": "garden.example.com/v1", "kind": "Plant", "metadata": {"name": name}}
        assert self.call("POST", PLANTS, {**body, "spec": spec}).status == 201

    def settled(self, *names: str) -> None:
        """Until kopf has handled these as they are: what changes earlier is still part of the creation."""
        for name in names:
            eventually(partial(self._is_settled, name), seconds=WAIT_S)

    def _is_settled(self, name: str) -> bool:
        return HANDLED in (self.look(f"{PLANTS}/{name}", "metadata", "annotations") or {})

    def look(self, path: str, *fields: str) -> Any:
        """A value in an object; None while it, or the server, is not there."""
        try:
            found = self.call("GET", path).obj
        except GONE:
            return None
        for field in fields:
            found = found.get(field) if isinstance(found, dict) else None
        return found

    def until(self, path: str, *fields: str, be: Any) -> None:
        try:
            eventually(lambda: self.look(path, *fields) == be, seconds=WAIT_S)
        except AssertionError:
            found, said = self.look(path, *fields), self._log.read_text()[-4000:]
            raise AssertionError(f"{path} {fields} is {found!r}, not {be!r}:\n{said}") from None

    def reasons(self) -> set[str]:
        return {event["reason"] for event in self.call("GET", f"{INSIDE}/events").obj["items"]}


@pytest.fixture(scope="module")
def plot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garden]:
    directory = tmp_path_factory.mktemp("garden")
    with victim(directory / "server") as server:
        with server.client() as client:
            assert client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).status == 201
            assert client.post(CRDS, DEFINITION).status == 201
        made = Garden(server, directory)
        try:
            yield made
            made.operator.stop()
        finally:
            made.operator.kill()


def litres(name: str) -> tuple[str, str, str]:
    return f"{INSIDE}/configmaps/{name}-care", "data", "litres"


def test_a_new_object_is_handled_adopted_held_and_told_of(plot: Garden) -> None:
    plot.plant("rose", size=2)
    plot.until(*litres("rose"), be="2")
    plot.until(f"{PLANTS}/rose", "status", "phase", be="Growing")
    rose = plot.call("GET", f"{PLANTS}/rose").obj
    assert rose["metadata"]["finalizers"] == [FINALIZER]
    assert rose["status"]["planted"] == {"child": "rose-care"}
    [owner] = plot.call("GET", f"{INSIDE}/configmaps/rose-care").obj["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Plant", rose["metadata"]["uid"])
    eventually(lambda: "Planted" in plot.reasons())
    # kopf writes only what is its own: the spec is still the gardener's first.
    assert rose["metadata"]["generation"] == 1


def test_a_change_of_one_field_is_handled_with_what_was_before(plot: Garden) -> None:
    plot.plant("oak", size=1)
    plot.settled("oak")
    plot.call("PATCH", f"{PLANTS}/oak", {"spec": {"size": 7}})
    plot.until(*litres("oak"), be="7")
    plot.until(f"{PLANTS}/oak", "status", "grown", be="1 to 7")
    eventually(lambda: "Logging" in plot.reasons())


def test_a_handler_that_fails_is_tried_again(plot: Garden) -> None:
    plot.plant("bonsai", size=1, failures=2)
    plot.until(f"{PLANTS}/bonsai", "status", "tries", be=3)
    eventually(lambda: not progress(plot, "bonsai"))


def progress(plot: Garden, name: str) -> list[str]:
    """What kopf still has to remember about handlers under way."""
    meta = plot.call("GET", f"{PLANTS}/{name}").obj["metadata"]
    return [note for note in meta.get("annotations", {}) if note.startswith("kopf") and note != HANDLED]


def test_timers_tick(plot: Garden) -> None:
    plot.plant("moss", size=1)
    eventually(lambda: (plot.look(f"{PLANTS}/moss", "status", "days") or 0) >= 3, seconds=WAIT_S)


def test_a_deletion_waits_for_its_handler_and_takes_the_children_along(plot: Garden) -> None:
    plot.plant("tulip", size=1)
    plot.settled("tulip")
    plot.call("DELETE", f"{PLANTS}/tulip")
    plot.until(f"{PLANTS}/tulip", "code", be=404)
    assert plot.look(f"{INSIDE}/configmaps/tulip-remembered", "metadata", "name") == "tulip-remembered"
    plot.until(f"{INSIDE}/configmaps/tulip-care", "code", be=404)


def test_many_objects_at_once_converge(plot: Garden) -> None:
    names = [f"seed-{number}" for number in range(20)]
    for name in names:
        plot.plant(name, size=1)
    plot.settled(*names)
    for name in names:
        plot.call("PATCH", f"{PLANTS}/{name}", {"spec": {"size": 4}})
    for name in names:
        plot.until(*litres(name), be="4")
    for name in names:
        plot.call("DELETE", f"{PLANTS}/{name}")
    for name in names:
        plot.until(f"{PLANTS}/{name}", "code", be=404)


def test_the_operator_goes_on_when_the_server_comes_back(plot: Garden) -> None:
    """Killed without a word, and started again with the same data at the same address."""
    plot.plant("ivy", size=1)
    plot.settled("ivy")
    before = plot.look(f"{PLANTS}/ivy", "status", "days") or 0
    plot.server.kill()
    plot.server.start()
    plot.call("PATCH", f"{PLANTS}/ivy", {"spec": {"size": 3}})
    plot.plant("fern", size=5)
    plot.until(*litres("ivy"), be="3")
    plot.until(*litres("fern"), be="5")
    eventually(lambda: (plot.look(f"{PLANTS}/ivy", "status", "days") or 0) > before, seconds=WAIT_S)
    plot.call("DELETE", f"{PLANTS}/ivy")
    plot.until(f"{PLANTS}/ivy", "code", be=404)


def test_a_new_operator_resumes_what_it_finds(plot: Garden) -> None:
    plot.plant("lily", size=1)
    plot.settled("lily")
    plot.operator.stop()
    plot.call("DELETE", f"{INSIDE}/configmaps/lily-care")
    plot.start_operator()
    plot.until(*litres("lily"), be="1")
