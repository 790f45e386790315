"""Every name under fathom.dev/ has somebody who writes it and somebody who reads it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fathom"
NAME = re.compile(r"fathom\.dev/[A-Za-z][A-Za-z0-9-]*")
# Of kinds and their versions, not of annotations, labels, taints and conditions.
NO_NAME = re.compile(r"fathom\.dev/v1alpha1")

PEOPLE = "people"  # They write it, or read it, with kubectl: then docs/ has it.

# Name -> (who writes it, who reads it): files, or people.
NAMES: dict[str, tuple[str, str]] = {
    # Conditions of nodes, pods and Services.
    "BlockedByPolicy": ("schedule/loop/pod_status_writer.py", "schedule/policy_rollout/controller.py"),
    "ConnectionsFail": ("gateway/controller.py", "schedule/policy_rollout/controller.py"),
    "EvictedFor": ("api/subresources/eviction.py", "controllers/overrides/plan_end.py"),
    "Held": ("controllers/node_health/plan.py", "controllers/node_health/brake_status.py"),
    "Lost": ("controllers/node_health/plan.py", "controllers/node_health/plan.py"),
    "PodsRefused": ("controllers/refusals.py", "controllers/refusals.py"),
    "Quarantined": ("controllers/node_health/plan_trust.py", "controllers/node_health/events.py"),
    "Serving": ("gateway/controller.py", "controllers/progress/pod_stages.py"),
    "Suspect": ("controllers/node_health/plan.py", "controllers/node_health/plan.py"),
    "Unreachable": ("controllers/node_health/plan.py", "controllers/node_health/plan.py"),
    # Taints.
    "lost": ("controllers/node_health/plan.py", PEOPLE),
    "quarantine": ("controllers/node_health/plan_trust.py", "schedule/decide/remedies.py"),
    "suspect": ("controllers/node_health/plan.py", PEOPLE),
    # Labels.
    "driver": ("agent/node.py", "gateway/routes.py"),
    "process": ("endpoint/publish.py", "model/processes.py"),
    "node-class": (PEOPLE, "schedule/decide/resolve.py"),
    "pool": (PEOPLE, "schedule/decide/resolve.py"),
    "tenant": (PEOPLE, "model/tenancy.py"),
    # Annotations.
    "accept-unenforced": (PEOPLE, "api/admission/unenforced.py"),
    "account": ("api/binding/checks.py", "model/tenancy.py"),
    "agent-certificate": ("agent/node.py", "api/agent_connections.py"),
    "agent-notice": ("agent/node.py", PEOPLE),
    "author": ("cli/steer/override_actions.py", "kinds/attached_override.py"),
    "auto-revert": (PEOPLE, "controllers/deployment/plan_rollback.py"),
    "bookmark-seconds": ("api/verbs/watch.py", "client/events.py"),
    "break-glass": ("api/admission/overrides/marks.py", "api/auth/break_glass.py"),
    "capacity-class": ("schedule/loop/deciding.py", "schedule/loop/reservations.py"),
    "charged-with-pod": ("api/ledger/quota_charges.py", "api/admission/usage.py"),
    "decision": ("schedule/loop/deciding.py", "explain/why/placed.py"),
    "declare-lost": (PEOPLE, "controllers/node_health/controller.py"),
    "epoch": ("api/admission/fences.py", "control/lease.py"),
    "generation": (PEOPLE, "kinds/reservation.py"),
    "intent": (PEOPLE, "control/plan.py"),
    "node-revision": ("api/binding/checks.py", PEOPLE),
    "override": ("control/commit.py", "controllers/overrides/plan_routes.py"),
    "override-earlier-routes": (
        "controllers/overrides/plan_routes.py",
        "controllers/overrides/plan_routes.py",
    ),
    "override-routes": ("controllers/overrides/plan_routes.py", "controllers/overrides/plan_routes.py"),
    "overrides": ("schedule/loop/deciding.py", "schedule/loop/cluster_view.py"),
    "parts": ("endpoint/publish.py", "model/processes.py"),
    "pod": ("schedule/loop/reservations.py", PEOPLE),
    "pod-uid": ("schedule/loop/reservations.py", "schedule/loop/cluster_view.py"),
    "policy": ("schedule/loop/deciding.py", "cache/indexes.py"),
    "reservation": ("api/binding/checks.py", PEOPLE),
    "reverted-from": ("controllers/deployment/plan_rollback.py", PEOPLE),
    "reverted-to": ("controllers/deployment/plan_rollback.py", "controllers/deployment/plan_rollback.py"),
    "runbook-step": ("steer/actions.py", "steer/actions.py"),
    "runs-seconds": (PEOPLE, "agent/simulated.py"),
    "simulated": (PEOPLE, "agent/simulated.py"),
    "serving-certificate": ("endpoint/publish.py", "api/process_pages.py"),
    "slo": (PEOPLE, "model/service_levels.py"),
    "slot": ("controllers/replicaset/plan.py", "kinds/reservation.py"),
    "stop-when-alone-seconds": (PEOPLE, "agent/container_views.py"),
    "trust-lost": ("controllers/node_health/plan_trust.py", "model/trust.py"),
    "watch-age-seconds": ("api/verbs/watch.py", "client/events.py"),
}


@cache
def documents() -> str:
    return "".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))


@cache
def sources() -> list[Path]:
    """Without the simulator: what only its stories write, nobody writes."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if "sim" not in path.relative_to(SOURCE).parts[:1]]


class Mentions(NamedTuple):
    """Such names as a file has them, and the identifiers that it gives them."""

    literals: frozenset[str]
    constants: tuple[tuple[str, str], ...]  # (identifier, name), where one is given to the other.


@cache
def mentions(path: Path) -> Mentions:
    source = path.read_text()
    nodes = list(ast.walk(ast.parse(source))) if "fathom.dev/" in source else []
    pairs = [pair for node in nodes if isinstance(node, ast.Assign) for pair in _pairs(node)]
    constants = tuple((target, name) for target, value in pairs for name in sorted(_names(ast.walk(value))))
    return Mentions(frozenset(_names(nodes)), constants)


@cache
def identifiers(path: Path) -> frozenset[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    called = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(called | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {one.partition("/")[2] for one in texts if NAME.fullmatch(one) and not NO_NAME.fullmatch(one)}


def _pairs(node: ast.Assign) -> list[tuple[str, ast.expr]]:
    found: list[tuple[str, ast.expr]] = []
    for target in node.targets:
        if isinstance(target, ast.Name):
            found.append((target.id, node.value))
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(target.elts, node.value.elts, strict=True)
            found += [(one.id, value) for one, value in pairs if isinstance(one, ast.Name)]
    return found


def uses(file: str, name: str) -> bool:
    called = {one for path in sources() for one, named in mentions(path).constants if named == name}
    return name in mentions(SOURCE / file).literals or not called.isdisjoint(identifiers(SOURCE / file))


def test_every_name_is_listed_with_its_writer_and_its_reader() -> None:
    found = set().union(*(mentions(path).literals for path in sources()))
    assert found == set(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_those_who_write_and_read_a_name_know_it(name: str) -> None:
    for who in NAMES[name]:
        if who == PEOPLE:
            assert f"fathom.dev/{name}" in documents(), "people can only know of it from docs/"
        else:
            assert uses(who, name), f"{who} does not mention it"
