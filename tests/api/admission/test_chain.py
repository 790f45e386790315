"""The chain runs plugins in order and tells what each did; a broken one fails closed."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
from tests.api.admission.world import KINDS, World, attempt, create, delete, obj, pod, refusal, update

from fathom.api.admission.attempt import (
    CREATE,
    DELETE,
    UPDATE,
    Admitted,
    Charge,
    Denied,
    WriteAttempt,
    refused,
)
from fathom.api.admission.chain import Chain
from fathom.api.admission.plugin import Plugin
from fathom.model.audit import Verdict
from fathom.model.objects import Obj, labels_of, with_metadata
from fathom.model.view import View
from fathom.store.protocol import Expect


class Labels(Plugin):
    """Adds a label; told apart by its name."""

    trusted = True

    def __init__(self, name: str, value: str = "x") -> None:
        self.name = name
        self._value = value

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        labels = labels_of(attempt.obj)
        if labels.get(self.name) == self._value:
            return attempt.obj
        return with_metadata(attempt.obj, labels={**labels, self.name: self._value})


class Forbids(Plugin):
    name = "Forbids"
    trusted = True

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        attempt.note("looked", len(labels_of(attempt.obj or {})))
        if "bad" in labels_of(attempt.obj or {}):
            raise refused(attempt, "bad things are not wanted")


class Expects(Plugin):
    name = "Expects"
    operations = frozenset({CREATE, UPDATE, DELETE})
    trusted = True

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        return (Charge((Expect(f"/{attempt.operation}", 7),)),)

    def release(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        return (Charge((Expect("/gone", 8),)),)


def test_mutations_come_in_order_and_each_is_told_with_the_fields_it_changed() -> None:
    chain = Chain([Labels("b"), Labels("a"), Labels("b-again"), Labels("a2")])
    admitted = create(chain, World(), pod())
    assert admitted.obj == with_metadata(pod(), labels={"b": "x", "a": "x", "b-again": "x", "a2": "x"})
    assert admitted.verdicts == (
        Verdict("b", mutated=("metadata.labels[b]",)),
        Verdict("a", mutated=("metadata.labels[a]",)),
        Verdict("b-again", mutated=("metadata.labels[b-again]",)),
        Verdict("a2", mutated=("metadata.labels[a2]",)),
    )


def test_a_plugin_that_changes_nothing_has_no_verdict() -> None:
    labelled = with_metadata(pod(), labels={"a": "x"})
    assert create(Chain([Labels("a")]), World(), labelled) == Admitted(labelled)


def test_validation_sees_all_mutations_and_a_refusal_carries_the_verdicts_up_to_it() -> None:
    chain = Chain([Forbids(), Labels("bad")])
    error = refusal(chain, World(), pod("p"))
    assert isinstance(error, Denied)
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == 'pods "p" is forbidden: bad things are not wanted'
    assert error.status()["details"] == {"name": "p", "kind": "pods"}
    assert error.verdicts == (
        Verdict("bad", mutated=("metadata.labels[bad]",)),
        Verdict("Forbids", denied=error.message, notes=(("looked", "1"),)),
    )


def test_notes_are_kept_with_the_plugins_verdict() -> None:
    assert create(Chain([Forbids()]), World(), pod()).verdicts == (
        Verdict("Forbids", notes=(("looked", "0"),)),
    )


def test_charges_are_gathered_and_removals_released() -> None:
    chain = Chain([Expects()])
    assert create(chain, World(), pod()).charges == (Charge((Expect("/CREATE", 7),)),)
    assert delete(chain, World(), pod()) == Admitted(None, (), (Charge((Expect("/DELETE", 7),)),))
    assert chain.release(attempt(DELETE, None, pod()), World()) == (Charge((Expect("/gone", 8),)),)


def test_only_plugins_that_are_concerned_and_have_something_to_say_are_asked() -> None:
    class OnlyNodes(Labels):
        resources = frozenset({"nodes"})
        operations = frozenset({CREATE})

    nodes, all_kinds = OnlyNodes("nodes"), Labels("all")
    chain = Chain([nodes, all_kinds, Expects()])
    assert chain.for_kind(KINDS["Node"], CREATE).mutators == (nodes, all_kinds)
    assert chain.for_kind(KINDS["Pod"], CREATE).mutators == (all_kinds,)
    assert chain.for_kind(KINDS["Node"], UPDATE).mutators == (all_kinds,)
    assert chain.for_kind(KINDS["Node"], CREATE, "status").mutators == ()
    assert chain.for_kind(KINDS["Node"], CREATE).validators == ()
    assert chain.for_kind(KINDS["Node"], CREATE) is chain.for_kind(KINDS["Node"], CREATE)


def test_warnings_reach_the_caller() -> None:
    class Warns(Plugin):
        name = "Warns"

        def validate(self, attempt: WriteAttempt, view: View) -> None:
            attempt.warn("old-fashioned")

    assert create(Chain([Warns()]), World(), pod()).warnings == ("old-fashioned",)


class Guest(Plugin):
    """A user's plugin, which changes what it is given in place and may break."""

    name = "Guest"

    def __init__(self, change: str = "") -> None:
        self._change = change

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        exec(self._change, {"obj": attempt.obj, "old": attempt.old})
        return attempt.obj


def test_a_users_plugin_may_change_its_copy_in_place_and_nobody_elses() -> None:
    new, old = pod("p"), pod("p")
    before = copy.deepcopy((new, old))
    chain = Chain([Guest("obj['metadata']['labels'] = {'a': 'b'}; old.clear()")])
    admitted = update(chain, World(), new, old)
    assert admitted.obj == with_metadata(pod("p"), labels={"a": "b"})
    assert admitted.verdicts == (Verdict("Guest", mutated=("metadata.labels[a]",)),)
    assert (new, old) == before


@pytest.mark.parametrize(
    "fault",
    [
        "1 / 0",
        "obj['metadata']['name'] = 'other'",
        "obj['metadata']['namespace'] = 'other'",
        "obj['kind'] = 'Node'",
        "obj['spec'] = object()",
        "raise RecursionError",
    ],
)
def test_a_plugin_that_breaks_fails_closed_with_its_name_and_no_traceback(fault: str) -> None:
    faults: list[tuple[str, Exception]] = []
    chain = Chain([Labels("a"), Guest(fault)], on_fault=lambda name, error: faults.append((name, error)))
    error = refusal(chain, World(), pod())
    assert isinstance(error, Denied)
    assert (error.code, error.reason) == (500, "InternalError")
    assert error.message.startswith('Internal error occurred: admission plugin "Guest" failed: ')
    assert "\n" not in error.message
    assert [verdict.plugin for verdict in error.verdicts] == ["a", "Guest"]
    assert error.verdicts[-1].denied
    assert [name for name, _ in faults] == ["Guest"]


def test_a_plugin_that_forgets_to_answer_fails_closed() -> None:
    class Forgets(Plugin):
        name = "Forgets"

        def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
            return None  # type: ignore[return-value]  # what an untyped plugin may do

    error = refusal(Chain([Forgets()]), World(), pod())
    assert error.message == 'Internal error occurred: admission plugin "Forgets" failed: TypeError'


def test_a_broken_validation_or_charge_fails_closed_too() -> None:
    class Breaks(Plugin):
        name = "Breaks"
        operations = frozenset({CREATE, DELETE})

        def validate(self, attempt: WriteAttempt, view: View) -> None:
            if attempt.operation == CREATE:
                raise KeyError("x")

        def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
            raise KeyError("y")

    chain = Chain([Breaks()])
    assert refusal(chain, World(), pod()).code == 500
    with pytest.raises(Denied) as refused_charge:
        delete(chain, World(), pod())
    assert refused_charge.value.code == 500


def test_cancellation_is_nobodys_fault() -> None:
    chain = Chain([Guest("raise KeyboardInterrupt")])
    with pytest.raises(KeyboardInterrupt):
        create(chain, World(), pod())


@pytest.mark.parametrize("names", [("a", "a"), ("a", "")])
def test_plugins_need_names_of_their_own(names: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="need unique names"):
        Chain([Labels(name) for name in names])


def test_objects_of_other_kinds_are_refused_under_their_full_name() -> None:
    error = refused(attempt(CREATE, obj("Deployment", "web")), "no")
    assert error.message == 'deployments.apps "web" is forbidden: no'
    assert error.details == {"name": "web", "group": "apps", "kind": "deployments"}
