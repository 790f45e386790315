"""Runs against a real API server: what is written, once, by whom, and how it is undone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.harness import ADMIN, JANE, deployment, serving, tell
from tests.api.harness import Api as Server
from tests.deep import first_few
from tests.steer.served import RUNS, Died, Hands, ServedTransport, aborted, made_run, resumed, started

from fathom.client.api import Api
from fathom.kinds.runbook import RunbookSpec, StepRetry
from fathom.kinds.runbook_run import STEP_ANNOTATION, RunbookRun, RunbookRunStatus
from fathom.kinds.shape import read
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, moment_ns
from fathom.record.audit_reading import read_entries
from fathom.seams.seam import Ask, Reply
from fathom.steer.record_writer import RunLost
from fathom.steer.runner import is_held

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

BOOK: Obj = {
    "title": "A bit of everything",
    "parameters": [
        {"name": "replicas", "type": "integer", "default": "3"},
        {"name": "word", "pattern": "[a-z]+"},
    ],
    "inputs": [
        {"name": "web", "object": WEB},
        {"name": "note", "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "${run}-note"}},
    ],
    "preconditions": [
        {"name": "exists", "expression": "web != null"},
        {"name": "small", "expression": "web.spec.replicas == 1", "once": True},
    ],
    "steps": [
        {
            "id": "note",
            "title": "Leave a note",
            "action": {
                "create": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "${run}-note"},
                    "data": {"word": "${word}"},
                }
            },
            "expect": [{"name": "noted", "expression": "note.data.word == params.word"}],
            "compensation": {"delete": {"apiVersion": "v1", "kind": "ConfigMap", "name": "${run}-note"}},
        },
        {
            "id": "grow",
            "action": {"scale": {"target": WEB, "replicas": "${replicas}"}},
            "expect": [
                {"name": "grown", "expression": "web.spec.replicas == 3", "show": "web.spec.replicas"}
            ],
            "compensation": {"restore": True},
        },
        {
            "id": "label",
            "action": {"patch": {"target": WEB, "patch": {"metadata": {"labels": {"word": "${word}"}}}}},
            "compensation": {"restore": True},
        },
        {
            "id": "tidy",
            "action": {"delete": {"apiVersion": "v1", "kind": "ConfigMap", "name": "old"}},
            "reversible": False,
        },
    ],
    "postconditions": [{"name": "stays", "expression": "web.spec.replicas == 3", "for": "10s"}],
}
CONTENT = msgspec.convert(BOOK, RunbookSpec)


def client(server: Server, token: str = ADMIN) -> tuple[Api, ServedTransport]:
    transport = ServedTransport(server, token)
    return Api(transport, headers=(("user-agent", "fathom"),)), transport


async def furnished(server: Server) -> None:
    assert (await server.post(DEPLOYMENTS, deployment("web"))).status == 201
    old = {"metadata": {"name": "old"}, "data": {}}
    assert (await server.post(MAPS, old)).status == 201


async def effects(server: Server) -> dict[str, Any]:
    web = (await server.get(f"{DEPLOYMENTS}/web")).obj
    note = await server.get(f"{MAPS}/run-1-note")
    return {
        "replicas": web["spec"]["replicas"],
        "label": web["metadata"].get("labels", {}).get("word"),
        "note": note.obj.get("data", {}).get("word"),
        "old": (await server.get(f"{MAPS}/old")).status,
    }


ALL_DONE = {"replicas": 3, "label": "moin", "note": "moin", "old": 404}
NOTHING_LEFT = {"replicas": 1, "label": None, "note": None, "old": 404}


def states(status: RunbookRunStatus) -> dict[str, str]:
    return {record.id: record.state for record in status.steps}


def test_a_run_does_its_steps_and_cites_the_audit_entry_of_each(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        api, _ = client(server)
        run = await made_run(api, CONTENT, word="moin")
        hands = Hands()
        status = await started(api, run, hands)
        assert (status.phase, status.author) == ("Succeeded", "admin")
        assert states(status) == dict.fromkeys(("note", "grow", "label", "tidy"), "Done")
        assert await effects(server) == ALL_DONE
        note = (await server.get(f"{MAPS}/run-1-note")).obj
        assert note["metadata"]["annotations"] == {STEP_ANNOTATION: f"{run['metadata']['uid']}/note"}
        server.audit.flush()
        entries = {entry.request: entry for entry in read_entries(tmp_path / "audit")}
        for record in status.steps:
            write = record.writes[0]
            entry = entries[write.audit_id]
            assert (entry.user, entry.revision, entry.user_agent) == (
                "admin",
                write.revision,
                f"fathom runbook run-1 {record.id}",
            )
            assert record.by == "admin"

    tell(story, tmp_path)


def test_an_abort_puts_back_what_the_run_changed_and_nothing_else(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        api, _ = client(server)
        hands = Hands()
        await started(api, await made_run(api, CONTENT, word="moin"), hands)
        # Somebody else wants five replicas meanwhile: that is not ours to take back.
        await server.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}})
        status = await aborted(api, hands)
        assert status.phase == "Aborted"
        assert states(status) == {"note": "Undone", "grow": "Undone", "label": "Undone", "tidy": "Kept"}
        assert await effects(server) == {**NOTHING_LEFT, "replicas": 5}

    tell(story, tmp_path)


def test_a_run_whose_precondition_fails_writes_nothing(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        api, transport = client(server)
        status = await started(api, await made_run(api, CONTENT, word="moin"), Hands())
        assert (status.phase, status.reason) == ("Stopped", "PreconditionFailed")
        assert {write.split()[1].split("/")[-3:][0] for write in transport.writes[1:]} == {"runbookruns"}

    tell(story, tmp_path)


def test_somebody_elses_object_of_the_same_name_is_neither_taken_nor_deleted(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        await server.post(MAPS, {"metadata": {"name": "run-1-note"}, "data": {"word": "theirs"}})
        api, _ = client(server)
        status = await started(api, await made_run(api, CONTENT, word="moin"), Hands())
        assert (status.phase, status.reason) == ("Stopped", "StepFailed")
        assert "this run did not make it" in status.message
        await aborted(api, Hands())
        assert (await effects(server))["note"] == "theirs"

    tell(story, tmp_path)


def test_a_runner_whose_run_was_taken_over_stops_before_its_next_write(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        api, transport = client(server)
        run = await made_run(api, CONTENT, word="moin")
        other, _ = client(server, JANE)
        await server.post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            {
                "metadata": {"name": "jane"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
            },
        )
        taken: list[RunbookRunStatus] = []

        async def take() -> None:
            taken.append(await resumed(other, Hands(), holder="jane"))

        class Slow(ServedTransport):
            async def request(self, ask: Any, *, timeout_s: float) -> Reply:
                if ask.method == "POST" and "configmaps" in ask.target:
                    await take()
                return await super().request(ask, timeout_s=timeout_s)

        slow = Api(Slow(server), headers=(("user-agent", "fathom"),))
        with pytest.raises(RunLost, match="jane has taken the run over"):
            await started(slow, run, Hands(), holder="admin")
        assert taken[0].phase == "Succeeded"
        assert {record.by for record in taken[0].steps} == {"jane"}
        assert await effects(server) == ALL_DONE
        assert transport.writes[1:] == []

    tell(story, tmp_path)


def test_a_prompt_waits_for_a_person_who_may_be_another(tmp_path: Path) -> None:
    content = msgspec.convert(
        {
            "steps": [
                {"id": "judge", "action": {"prompt": {"question": "Is ${namespace} quiet?"}}},
                {"id": "look", "action": {"wait": {}}},
            ]
        },
        RunbookSpec,
    )

    async def story(server: Server) -> None:
        api, _ = client(server)
        status = await started(api, await made_run(api, content), Hands())
        assert (status.phase, status.message) == (
            "Waiting",
            "step judge waits for an answer: Is default quiet?",
        )
        assert (await resumed(api, Hands({"judge": "no"}))).reason == "Refused"
        assert (await resumed(api, Hands({"judge": "yes"}))).phase == "Succeeded"

    tell(story, tmp_path)


class Delaying(ServedTransport):
    """The first request of one step does not arrive, and gets no answer; it may be delivered later."""

    def __init__(self, server: Server, step: str) -> None:
        super().__init__(server)
        self._step = step
        self.delayed: Ask | None = None

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        agent = dict(ask.headers).get("user-agent", "")
        if self.delayed is None and ask.method != "GET" and agent.endswith(f" {self._step}"):
            self.delayed = ask
            return Reply(0, b"no answer")
        return await super().request(ask, timeout_s=timeout_s)

    async def deliver(self) -> Reply:
        assert self.delayed is not None
        return await super().request(self.delayed, timeout_s=1)


@pytest.mark.parametrize(("step", "answer"), [("note", 409), ("grow", 409), ("label", 409), ("tidy", 404)])
def test_a_request_that_arrives_after_its_step_was_repeated_does_nothing(
    step: str, answer: int, tmp_path: Path
) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        transport = Delaying(server, step)
        api = Api(transport, headers=(("user-agent", "fathom"),))
        status = await started(api, await made_run(api, CONTENT, word="moin"), Hands())
        assert status.phase == "Succeeded"
        before = (await server.get(f"{DEPLOYMENTS}/web")).obj["metadata"]["generation"]
        assert (await transport.deliver()).status == answer
        assert (await server.get(f"{DEPLOYMENTS}/web")).obj["metadata"]["generation"] == before
        assert await effects(server) == ALL_DONE

    tell(story, tmp_path)


class DelayingUntilTheNextTry(Delaying):
    """The delayed request arrives after a read did not find it, before the step is prepared again."""

    def __init__(self, server: Server, step: str) -> None:
        super().__init__(server, step)
        self._reads = 0
        self.then: Callable[[], Awaitable[None]] | None = None

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        agent = dict(ask.headers).get("user-agent", "")
        if self.delayed is not None and ask.method == "GET" and agent.endswith(f" {self._step}"):
            self._reads += 1
            if self._reads == 2:
                assert (await self.deliver()).status == 200
                if self.then is not None:
                    await self.then()
        return await super().request(ask, timeout_s=timeout_s)


class RefusingOnce(ServedTransport):
    """The first patch of a Deployment is refused for the moment."""

    refused = False

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        if ask.method == "PATCH" and ask.target.startswith(DEPLOYMENTS) and not self.refused:
            self.refused = True
            return Reply(429, b'{"kind":"Status","code":429,"reason":"TooManyRequests"}')
        return await super().request(ask, timeout_s=timeout_s)


def test_a_runner_that_waits_long_for_its_next_try_is_not_taken_for_gone(tmp_path: Path) -> None:
    step = msgspec.structs.replace(CONTENT.steps[1], retry=StepRetry(attempts=2, backoff="5m"))
    content = msgspec.structs.replace(CONTENT, steps=(CONTENT.steps[0], step))

    async def story(server: Server) -> None:
        await furnished(server)
        api = Api(RefusingOnce(server), headers=(("user-agent", "fathom"),))
        hands = Hands()
        began_ns = hands.now_ns

        async def looked_at(seconds: float) -> None:
            hands.now_ns += int(seconds * SECOND_NS)
            run = await api.get(RUNS, "default", "run-1")
            assert run is not None
            assert is_held(read(RunbookRun, run).status, hands.now_ns)

        hands.sleep = looked_at
        assert (await started(api, await made_run(api, content, word="moin"), hands)).phase == "Succeeded"
        assert hands.now_ns - began_ns >= 300 * SECOND_NS

    tell(story, tmp_path)


def test_a_delete_that_is_tried_again_is_about_the_same_object(tmp_path: Path) -> None:
    """Its first request arrives between the two tries, and somebody makes another object of the name."""

    async def story(server: Server) -> None:
        await furnished(server)
        transport = DelayingUntilTheNextTry(server, "tidy")

        async def made_again() -> None:
            assert (await server.post(MAPS, {"metadata": {"name": "old"}, "data": {}})).status == 201

        transport.then = made_again
        api = Api(transport, headers=(("user-agent", "fathom"),))
        assert (await started(api, await made_run(api, CONTENT, word="moin"), Hands())).phase == "Succeeded"
        assert await effects(server) == {**ALL_DONE, "old": 200}

    tell(story, tmp_path)


def test_the_values_of_before_are_put_back_although_the_request_arrived_between_two_tries(
    tmp_path: Path,
) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        transport = DelayingUntilTheNextTry(server, "grow")
        api = Api(transport, headers=(("user-agent", "fathom"),))
        assert (await started(api, await made_run(api, CONTENT, word="moin"), Hands())).phase == "Succeeded"
        assert (await aborted(api, Hands())).phase == "Aborted"
        assert await effects(server) == NOTHING_LEFT

    tell(story, tmp_path)


class EditedBeforeTheStep(ServedTransport):
    """Somebody sets the field that a step is about, after the step has read it and before it writes."""

    edited = False

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        agent = dict(ask.headers).get("user-agent", "")
        if ask.method == "PATCH" and agent.endswith(" grow") and not self.edited:
            self.edited = True
            assert (await self._server.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 2}})).status == 200
        return await super().request(ask, timeout_s=timeout_s)


def test_a_value_that_was_set_while_a_step_was_under_way_is_the_one_of_before(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        api = Api(EditedBeforeTheStep(server), headers=(("user-agent", "fathom"),))
        assert (await started(api, await made_run(api, CONTENT, word="moin"), Hands())).phase == "Succeeded"
        assert await effects(server) == ALL_DONE
        assert (await aborted(api, Hands())).phase == "Aborted"
        assert await effects(server) == {**NOTHING_LEFT, "replicas": 2}

    tell(story, tmp_path)


def test_a_request_that_arrives_while_the_run_is_undone_is_undone_too(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await furnished(server)
        transport = Delaying(server, "note")
        api = Api(transport, headers=(("user-agent", "fathom"),))
        run = await made_run(api, CONTENT, word="moin")
        hands = Hands()

        async def die(seconds: float) -> None:
            raise Died

        hands.sleep = die
        with pytest.raises(Died):  # It waits, since it got no answer.
            await started(api, run, hands)

        async def arrive(seconds: float) -> None:
            later.now_ns += int(seconds * 1e9)
            if transport.delayed is not None:
                await transport.deliver()

        later = Hands()
        later.sleep = arrive
        status = await aborted(api, later)
        assert (status.phase, await effects(server)) == ("Aborted", {**NOTHING_LEFT, "old": 200})

    tell(story, tmp_path)


def test_a_create_that_arrives_after_it_was_repeated_and_undone_makes_nothing(tmp_path: Path) -> None:
    """An abort waits until the request that got no answer can arrive no more."""

    async def story(server: Server) -> None:
        await furnished(server)
        transport = Delaying(server, "note")
        api = Api(transport, headers=(("user-agent", "fathom"),))
        hands = Hands()
        assert (await started(api, await made_run(api, CONTENT, word="moin"), hands)).phase == "Succeeded"
        arrived: list[int] = []
        hands.now_ns = read_time(await api.get(RUNS, "default", "run-1"), "note")

        async def arrive(seconds: float) -> None:
            hands.now_ns += int(seconds * SECOND_NS)
            if not arrived:
                arrived.append((await transport.deliver()).status)

        hands.sleep = arrive
        assert (await aborted(api, hands)).phase == "Aborted"
        assert (arrived, await effects(server)) == ([409], NOTHING_LEFT)

    tell(story, tmp_path)


def read_time(run: Obj | None, step: str) -> int:
    """When the step acted."""
    assert run is not None
    record = next(each for each in read(RunbookRun, run).status.steps if each.id == step)
    return moment_ns(record.acted_at) or 0


def test_a_regression_undoes_the_run_if_the_runbook_says_so(tmp_path: Path) -> None:
    stop = {"name": "crowded", "expression": "web.spec.replicas > 2", "message": "too many", "then": "undo"}
    content = msgspec.convert({**BOOK, "stopIf": [stop]}, RunbookSpec)

    async def story(server: Server) -> None:
        await furnished(server)
        api, _ = client(server)
        status = await started(api, await made_run(api, content, word="moin"), Hands())
        assert (status.phase, status.reason, status.message) == (
            "Aborted",
            "Regression",
            "crowded: too many",
        )
        assert states(status) == {"note": "Undone", "grow": "Undone"}
        assert await effects(server) == {**NOTHING_LEFT, "old": 200}

    tell(story, tmp_path)


def test_data_that_cannot_be_read_lets_no_step_begin(tmp_path: Path) -> None:
    """The kind of an input is unknown to the server: the precondition is Unknown, and then the run stops."""
    inputs = [*BOOK["inputs"], {"name": "odd", "object": {"apiVersion": "v1", "kind": "Odd", "name": "x"}}]
    needs = [{"name": "odd-is-fine", "expression": "odd != null"}]
    content = msgspec.convert({**BOOK, "inputs": inputs, "preconditions": needs}, RunbookSpec)

    async def story(server: Server) -> None:
        await furnished(server)
        api, _ = client(server)
        status = await started(api, await made_run(api, content, word="moin"), Hands())
        assert (status.phase, status.reason, status.message) == (
            "Stopped",
            "ConditionUnknown",
            "before step note: odd-is-fine is Unknown: odd: it could not be read: the server has no Odd in"
            " v1",
        )
        assert await effects(server) == {**NOTHING_LEFT, "old": 200}

    tell(story, tmp_path)


# A crash around every write.


async def _run_with(data: Path, break_at: int, how: str, ends: str) -> int:
    """One run whose runner dies, or loses an answer, around one write; then it is resumed, or aborted. How
    many writes the first life made."""
    async with serving(data) as server:
        await furnished(server)
        api, transport = client(server)
        run = await made_run(api, CONTENT, word="moin")
        first = len(transport.writes)

        def before(number: int) -> None:
            if how == "dies before" and number == first + break_at:
                raise Died

        def after(number: int, reply: Reply) -> Reply:
            if number == first + break_at:
                if how == "dies after":
                    raise Died
                if how == "loses the answer of":
                    return Reply(0, b"no answer")
            return reply

        transport.before, transport.after = before, after
        hands = Hands()
        try:
            status = await started(api, run, hands)
            if ends == "abort":
                status = await aborted(api, hands)
        except Died:
            other, _ = client(server)
            status = await (resumed(other, hands) if ends == "resume" else aborted(other, hands))
        await _check(server, data, status, undone=ends == "abort")
        return len(transport.writes) - first


async def _check(server: Server, data: Path, status: RunbookRunStatus, *, undone: bool) -> None:
    server.audit.flush()
    entries = [
        entry
        for entry in read_entries(data / "audit")
        if entry.wrote and entry.user_agent.startswith("fathom runbook ")
    ]
    done = [entry.user_agent.removeprefix("fathom runbook run-1 ") for entry in entries]
    assert len(done) == len(set(done)), done
    if not undone:
        assert (status.phase, await effects(server)) == ("Succeeded", ALL_DONE)
        assert set(done) == {"note", "grow", "label", "tidy"}
    else:
        assert status.phase == "Aborted"
        assert await effects(server) == {**NOTHING_LEFT, "old": 404 if "tidy" in done else 200}


@pytest.mark.slow
@pytest.mark.parametrize("ends", first_few(["resume", "abort"], 1))
@pytest.mark.parametrize(
    "how", ["dies after", "loses the answer of", pytest.param("dies before", marks=pytest.mark.full)]
)
def test_each_step_is_done_at_most_once_whichever_write_its_runner(
    how: str, ends: str, tmp_path: Path
) -> None:
    for break_at in itertools.count():
        directory = tmp_path / str(break_at)
        directory.mkdir()
        if asyncio.run(_run_with(directory, break_at, how, ends)) <= break_at:
            break  # The run was over before: every write has been tried.
    assert break_at > 10
