"""Who can change the inputs of a decision without calling it: the eight forms, and the answers."""

from __future__ import annotations

import re

import msgspec
import pytest

from fathom.api.admission.plugin import overrides
from fathom.api.admission.plugins import DECLARING, built_in
from fathom.control.process import load_controller, shown_kinds
from fathom.controllers.all import CONTROLLERS as RUN
from fathom.controllers.all import SUMMARY
from fathom.explain.coupling.actors import CONTROLLERS, actors, by_name, find_actor
from fathom.explain.coupling.answer import (
    CouplingQuestion,
    DeclaredActor,
    DeclaredRead,
    DeclaredWrite,
    UnknownActor,
    answer,
    wanted,
)
from fathom.explain.coupling.kind_names import kind_of, resource_of
from fathom.explain.coupling.links import FORMS, CouplingLink, links_of
from fathom.explain.coupling.texts import coupling_lines, dot
from fathom.explain.evidence import Evidence, Gap, HeldObjects, ObjectRef, ProcessState, RecordQuery
from fathom.model.audit import AuditEntry, Verdict
from fathom.model.decision import SeenVersions
from fathom.model.declared import Actor, Reads, Timer, Writes, covers, shared_fields

WEB = ObjectRef("deployments.apps", "default", "web", "uid-1")
ME = Actor(
    name="me",
    process="mine",
    account="system:fathom:mine",
    reads=(Reads("Pod", ("spec", "status.phase")), Reads("Node", ("status",), "api")),
    writes=(Writes("Deployment", ("spec.replicas",)),),
    woken_by=("Node",),
    takes=("quota",),
    waits_in=("queue",),
    calls=("server",),
    timers=(Timer("look", 15.0), Timer("drawn", 10.0, spread=0.2)),
)


def links(other: Actor) -> list[CouplingLink]:
    return list(links_of(ME, [ME, other]))


def other(**fields: object) -> Actor:
    return Actor(name="other", process="theirs", **fields)  # type: ignore[arg-type]


def test_two_writers_of_one_field() -> None:
    [link] = links(other(writes=(Writes("Deployment", ("spec",)), Writes("ReplicaSet", ("spec",)))))
    assert (link.form, link.kind, link.fields) == ("two-writers", "Deployment", ("spec.replicas",))


def test_writers_of_different_fields_are_not_coupled() -> None:
    assert links(other(writes=(Writes("Deployment", ("metadata.labels", "spec.replicasMax")),))) == []


def test_shared_quota_or_capacity() -> None:
    [link] = links(other(takes=("quota", "elsewhere")))
    assert (link.form, link.through) == ("shared-capacity", "quota")


def test_shared_queue_or_rate_limit() -> None:
    queue, rate = links(other(waits_in=("queue",), account="system:fathom:mine"))
    assert (queue.form, queue.through) == ("shared-queue", "queue")
    assert (rate.form, rate.through) == ("shared-queue", "request rate of system:fathom:mine")


def test_cache_lag_between_controllers_of_different_processes() -> None:
    writes = (Writes("Pod", ("spec.nodeName",)),)
    [link] = links(other(writes=writes))
    assert (link.form, link.fields, link.calls) == ("cache-lag", ("spec.nodeName",), False)
    beside = Actor(name="beside", process="mine", writes=writes)
    assert links(beside) == [], "a process sees its own writes at once"


def test_admission_that_mutates_what_another_reads() -> None:
    plugin = other(writes=(Writes("Pod", ("spec.tolerations",)),), mutates_requests=True)
    assert [link.form for link in links(plugin)] == ["cache-lag", "admission-mutates"]


def test_status_used_as_input() -> None:
    lag, status = links(other(writes=(Writes("Pod", ("status",)),)))
    assert (lag.form, status.form) == ("cache-lag", "status-as-input")
    assert status.fields == ("status.phase",)
    [asked] = links(other(writes=(Writes("Node", ("status.conditions",)),)))
    assert (asked.form, asked.calls) == ("status-as-input", True)


def test_retries_of_one_load_the_api_of_another() -> None:
    [link] = links(other(calls=("server",)))
    assert (link.form, link.through) == ("retries-load-api", "server")


@pytest.mark.parametrize(("period_s", "align"), [(15.0, True), (30.0, True), (20.0, False), (10.0, False)])
def test_timers_that_align(period_s: float, align: bool) -> None:
    found = links(other(timers=(Timer("scan", period_s),)))
    assert [link.form for link in found] == (["timers-align"] if align else [])


def test_every_form_of_coupling_occurs_in_the_control_plane() -> None:
    table = actors()
    occurring = {link.form for actor in table.values() for link in links_of(actor, table.values())}
    assert occurring == set(FORMS)


# The declarations.


def test_the_table_has_every_controller_that_a_cluster_runs() -> None:
    assert {load_controller(name).name for name in (*RUN, SUMMARY)} == {each.name for each in CONTROLLERS}


def test_a_controller_declares_every_kind_that_it_watches() -> None:
    for controller in CONTROLLERS:
        watched = {watch.kind.name for watch in controller.watches}
        assert set(shown_kinds(controller)) == watched, controller.name


def test_an_admission_plugin_that_mutates_or_charges_declares_what() -> None:
    for plugin in built_in(None, None, None):  # type: ignore[arg-type]
        if overrides(plugin, "mutate") or overrides(plugin, "charge"):
            silent = not (plugin.reads or plugin.writes)
            assert type(plugin) in DECLARING or plugin.name in NOTHING_MORE, plugin.name
            assert not silent or plugin.name in NOTHING_MORE, plugin.name


# They refuse, or name preconditions; they write nothing beyond the request.
NOTHING_MORE = frozenset({"NamespaceLifecycle", "TenantUse", "CapacityClassUse", "UnenforcedKinds"})


def test_every_declared_kind_exists() -> None:
    kinds = {read.kind for actor in actors().values() for read in actor.reads}
    kinds |= {write.kind for actor in actors().values() for write in actor.writes}
    assert {kind for kind in kinds if not resource_of(kind)} == {"*"}


@pytest.mark.parametrize(
    ("name", "actor"),
    [
        ("autoscaling", "controllers/autoscaling"),
        ("controllers/autoscaling", "controllers/autoscaling"),
        ("agent/node-1", "agent"),
        ("scheduler-0of2", "scheduler"),
        ("controllers/events", "controllers"),
        ("LimitRanger", "admission/LimitRanger"),
    ],
)
def test_actors_are_found_by_the_names_in_audit_entries(name: str, actor: str) -> None:
    found = find_actor(name, actors())
    assert found is not None
    assert found.name == actor


def test_a_users_own_controller_is_no_actor_of_ours() -> None:
    assert find_actor("controllers/greetings", actors()) is None


# Prefixes of paths.


def test_a_prefix_covers_what_is_below_it_and_nothing_beside_it() -> None:
    assert covers(("status.conditions[type=Ready]",), "status.conditions[type=Ready].status")
    assert not covers(("status.conditions[type=Ready]",), "status.conditions[type=Bound].status")
    assert not covers(("spec.replicas",), "spec")
    assert covers(("*",), "anything")


def test_two_prefixes_meet_in_the_lower_one() -> None:
    assert shared_fields(("spec", "status"), ("spec.replicas", "metadata")) == ("spec.replicas",)
    assert shared_fields(("*",), ("spec",)) == ("spec",)


# Answers.


def evidence(*audit: AuditEntry, **more: object) -> Evidence:
    return Evidence(subject=WEB, objects=HeldObjects({}, revision=90), audit=audit, **more)  # type: ignore[arg-type]


def entry(revision: int, *changed: str, user: str = "alice", **more: object) -> AuditEntry:
    return AuditEntry(
        id=str(revision),
        time=f"2026-01-01T00:00:{revision:02}.000000Z",
        user=user,
        verb="patch",
        resource="deployments.apps",
        namespace="default",
        name="web",
        uid="uid-1",
        code=200,
        revision=revision,
        changed=changed,
        **more,  # type: ignore[arg-type]
    )


AUTOSCALER = {"user": "system:fathom:controllers", "actor": "controllers/autoscaling"}


def test_a_controllers_answer_names_who_changes_its_inputs_without_calling_it() -> None:
    coupling = answer(evidence(), CouplingQuestion(controller="autoscaling"))
    assert coupling.subject == "controllers/autoscaling"
    assert {"agent", "controllers/deployment-progress", "scheduler"} <= set(coupling.silent)
    by_kind = {(each.kind, each.source): each for each in coupling.inputs}
    assert by_kind["Deployment", "cache"].calls
    assert not by_kind["Pod", "cache"].calls
    assert "without calling it" in coupling.summary


def test_what_is_checked_in_the_commit_cannot_change_unseen() -> None:
    coupling = answer(evidence(), CouplingQuestion(controller="binder"))
    assert coupling.silent == ()


def test_an_unknown_controller_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(UnknownActor, match="there is no controller 'nobody': there are scheduler, binder"):
        answer(evidence(), CouplingQuestion(controller="nobody"))


def test_a_field_s_answer_has_its_observed_writers_with_time_and_decision() -> None:
    coupling = answer(
        evidence(
            entry(1, "*"),
            entry(2, "spec.replicas", decision="d-2", **AUTOSCALER),
            entry(3, "metadata.labels[app]"),
            entry(4, "spec.replicas", decision="d-4", **AUTOSCALER),
        ),
        CouplingQuestion(field="spec.replicas"),
    )
    scaled, created = coupling.observed
    assert (scaled.writer, scaled.writes, scaled.decision) == ("controllers/autoscaling", 2, "d-4")
    assert (scaled.first, scaled.last) == ("2026-01-01T00:00:02.000000Z", "2026-01-01T00:00:04.000000Z")
    assert (created.writer, created.writes, created.certain) == ("alice", 1, False)
    assert {each.reader for each in coupling.inputs} >= {"controllers/deployments", "controllers/autoscaling"}


def test_a_write_of_admission_is_told_from_the_callers() -> None:
    mutated = (Verdict("LimitRanger", ("spec.template.spec",)),)
    coupling = answer(evidence(entry(1, "spec.template", admission=mutated)), CouplingQuestion())
    [observed] = coupling.observed
    assert (observed.field, observed.admission) == ("spec.template", ("LimitRanger",))


def test_refused_and_dry_run_writes_changed_nothing() -> None:
    refused = msgspec.structs.replace(entry(1, "spec.replicas"), code=409, revision=0)
    dry = msgspec.structs.replace(entry(2, "spec.replicas"), dry_run=True)
    assert answer(evidence(refused, dry), CouplingQuestion(field="spec.replicas")).observed == ()


def test_an_objects_answer_says_which_fields_its_writers_contest() -> None:
    turns = [
        entry(n, "spec.replicas", **(AUTOSCALER if n % 2 else {})) for n in range(1, 6)
    ]  # fmt: skip
    coupling = answer(evidence(*turns), CouplingQuestion())
    assert coupling.contested == ("spec.replicas",)
    assert "its writers take turns" in coupling.summary


def test_writers_take_turns_in_the_order_of_their_commits_and_not_of_the_log() -> None:
    """In the log are first all writes of the one, then all of the other."""
    turns = [entry(n, "spec.replicas", **(AUTOSCALER if n % 2 else {})) for n in (1, 3, 5, 2, 4)]
    assert answer(evidence(*turns), CouplingQuestion()).contested == ("spec.replicas",)
    in_turn = [entry(n, "spec.replicas", **(AUTOSCALER if n < 3 else {})) for n in (1, 3, 2, 4)]
    assert answer(evidence(*in_turn), CouplingQuestion()).contested == ()


@pytest.mark.parametrize("field", ["", "spec.replicas"])
def test_a_writers_last_write_is_the_one_that_was_committed_last(field: str) -> None:
    """The answer to the first one took 4 s: it is the last in the log."""
    second = entry(4, "spec.replicas", decision="d-4", **AUTOSCALER)
    first = msgspec.structs.replace(second, id="3", revision=3, decision="d-3", time="2026-01-01T00:00:07Z")
    [scaled] = answer(evidence(second, first), CouplingQuestion(field=field)).observed
    assert (scaled.writes, scaled.decision, scaled.revision) == (2, "d-4", 4)
    assert (scaled.first, scaled.last) == (second.time, second.time)


def test_an_object_s_links_name_both_ends() -> None:
    pod = evidence()
    pod = msgspec.structs.replace(pod, subject=ObjectRef("pods", "default", "web-1"))
    coupling = answer(pod, CouplingQuestion(field="status.conditions[type=Ready]"))
    pairs = {(link.form, link.actor) for link in coupling.links}
    assert ("two-writers", "agent -> controllers/nodes") in pairs


def test_caches_that_are_behind_are_shown_with_their_revisions() -> None:
    state = ProcessState(
        process="deciders", parts=("controllers",), caches={"Deployment": SeenVersions(80, age_ms=7)}
    )
    deployment = {"metadata": {"name": "web", "namespace": "default", "resourceVersion": "84"}}
    objects = HeldObjects({"deployments.apps": [deployment]}, revision=90)
    case = msgspec.structs.replace(evidence(processes=(state,)), objects=objects)
    [behind] = answer(case, CouplingQuestion(controller="autoscaling")).caches
    assert (behind.kind, behind.revision, behind.latest) == ("Deployment", 80, 84), "90 is of another kind"


def test_a_user_who_may_not_see_nodes_is_not_told_which_agent_wrote() -> None:
    by_agent = entry(1, "status.phase", user="system:node:node-7", actor="agent/node-7")
    shown = answer(evidence(by_agent, may_read_nodes=False), CouplingQuestion()).observed
    assert [each.writer for each in shown] == ["agent"]


def test_only_the_objects_own_records_are_wanted() -> None:
    assert wanted(WEB, HeldObjects({}), CouplingQuestion(controller="scheduler")) == RecordQuery()
    assert wanted(WEB, HeldObjects({}), CouplingQuestion()).objects == (WEB,)


def test_the_text_says_what_is_not_known() -> None:
    lines = coupling_lines(answer(evidence(gaps=(Gap("audit log", "not read"),)), CouplingQuestion()))
    assert lines[0].startswith("Deployment default/web: the audit log has no write of it")
    assert lines[-1] == "no data: audit log: not read"


def test_of_a_field_the_text_lists_who_can_write_it_and_who_decides_from_it() -> None:
    coupling = answer(evidence(), CouplingQuestion(field="spec.replicas"))
    readers = sorted({each.reader for each in coupling.inputs})
    _, writers, deciders, *_ = coupling_lines(coupling)
    assert deciders == f"  decide from it: {', '.join(readers)}"
    assert writers.startswith("  can write it: controllers/autoscaling, ")
    assert coupling.summary.endswith(f"; {len(readers)} actors decide from it")
    of_actor = coupling_lines(answer(evidence(), CouplingQuestion(controller="autoscaling")))
    assert not any(line.startswith("  decide from it") for line in of_actor)


def test_the_text_folds_long_lists_and_wide_shows_them() -> None:
    coupling = answer(evidence(), CouplingQuestion(controller="autoscaling"))
    short, wide = coupling_lines(coupling), coupling_lines(coupling, wide=True)
    assert len(short) < len(wide)
    assert any("and 13 more" in line or " more" in line for line in short)
    assert "inputs that change without a call: seen at the next pass" in short


def test_the_graph_has_dashed_edges_for_inputs_that_change_without_a_call() -> None:
    graph = dot(answer(evidence(), CouplingQuestion(controller="autoscaling")))
    assert graph.startswith("digraph coupling {")
    assert '  "Pod" -> "controllers/autoscaling" [style=dashed];' in graph
    assert '  "Deployment" -> "controllers/autoscaling";' in graph
    assert graph.count("{") == graph.count("}") == 1


TOKENS = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([A-Za-z_]\w*)|(->|[{}\[\]=,;]))')


def parsed(graph: str) -> list[list[str]]:
    """The statements of a graph, by the grammar of the DOT language as far as it is used."""
    tokens, at = [], 0
    while graph[at:].strip():
        match = TOKENS.match(graph, at)
        assert match is not None, f"no token: {graph[at : at + 40]!r}"
        tokens.append(match[0].strip())
        at = match.end()
    assert tokens[:3] == ["digraph", "coupling", "{"], tokens[:3]
    assert tokens[-1] == "}"
    statements: list[list[str]] = [[]]
    for token in tokens[3:-1]:
        if token == ";":
            statements.append([])
        else:
            statements[-1].append(token)
    assert statements.pop() == [], "the last statement has no end"
    return statements


def is_statement(tokens: list[str]) -> bool:
    """`a = b`, a node or an edge; then attributes."""
    head = tokens[: tokens.index("[")] if "[" in tokens else tokens
    rest = tokens[len(head) :]
    if "=" in head:
        return len(head) == 3 and head[1] == "=" and not rest
    named = len(head) == 1 or (len(head) == 3 and head[1] == "->")
    pairs = " ".join("x" if token not in {"=", ",", "[", "]"} else token for token in rest)
    return named and (not rest or re.fullmatch(r"\[ x = x( , x = x)* \]", pairs) is not None)


@pytest.mark.parametrize("controller", actors())
def test_the_graph_of_every_actor_is_in_the_dot_language(controller: str) -> None:
    statements = parsed(dot(answer(evidence(), CouplingQuestion(controller=controller))))
    assert [tokens for tokens in statements if not is_statement(tokens)] == []


def test_names_with_quotes_and_line_ends_do_not_break_the_graph() -> None:
    strange = 'a"b\\c\nd'
    actor = Actor(name=strange, process="p", reads=(Reads("Pod", (strange,)),))
    other = Actor(name="other", process="q", writes=(Writes("Pod", (strange,)),))
    graph = dot(answer(evidence(), CouplingQuestion(controller=strange), by_name([actor, other])))
    assert all(is_statement(tokens) for tokens in parsed(graph))


def test_json_has_the_names_of_the_api() -> None:
    document = msgspec.to_builtins(answer(evidence(), CouplingQuestion(controller="autoscaling")))
    assert {
        "subject",
        "summary",
        "silent",
        "inputs",
        "links",
        "observed",
        "contested",
        "fights",
        "caches",
        "gaps",
        "actors",
    } == set(document)


@pytest.mark.parametrize("name", ["deploy", "Deployment", "deployments", "deployments.apps"])
def test_kinds_have_the_names_that_people_write(name: str) -> None:
    assert kind_of(name) == "Deployment"


def test_one_actor_alone_is_coupled_to_nobody() -> None:
    assert links_of(ME, by_name([ME]).values()) == ()


def test_every_writer_in_the_api_server_is_an_actor_under_the_name_that_its_audit_entries_have() -> None:
    parts = ("garbage-collector", "namespaces", "resource-quotas", "tenant-quotas", "custom-definitions")
    for name in (*parts, "scale-rights", "events", "field-fights", "bootstrap"):
        actor = find_actor(f"housekeeping/{name}", actors())
        assert actor is not None, name
        assert actor.name == f"housekeeping/{name}"


def test_all_declarations_can_be_asked_for_at_once() -> None:
    reader = Actor(name="r", process="p", reads=(Reads("Pod", ("spec",)), Reads("Node")), woken_by=("Pod",))
    writer = Actor(name="w", process="q", writes=(Writes("Pod", ("status",), creates=True),))
    coupling = answer(evidence(), CouplingQuestion(controller="*"), by_name([reader, writer]))
    assert coupling.summary == "2 parts of the control plane read and write 2 kinds"
    assert coupling.actors == (
        DeclaredActor(
            "r",
            "p",
            (DeclaredRead("Pod", ("spec",), "cache", True), DeclaredRead("Node", ("*",), "cache", False)),
            (),
        ),
        DeclaredActor("w", "q", (), (DeclaredWrite("Pod", ("status",), True, False),)),
    )
