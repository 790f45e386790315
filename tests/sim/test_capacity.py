"""The ledger's invariants are not silent."""

from __future__ import annotations

from typing import Any

from fathom.model.objects import Key, Obj
from fathom.sim.checkers.capacity import LedgerIsTheSum, NobodyIsBoundBeyondALimit
from fathom.sim.world.invariants import Checker, Finding, Seen

BOOKS = "nodeledgers.fathom.dev"


def told(checker: Checker, *changes: tuple[int, str, str, Obj | None, Obj | None]) -> Any:
    """The first thing found wrong, in words."""
    for revision, resource, name, old, new in changes:
        key = Key("default", name) if resource == "pods" else Key("", name)
        change = Seen(
            resource=resource, key=key, revision=revision, old=old, new=new, at_s=0.0, by="x", incarnation=1
        )
        found = checker.commit(change)
        if found is not None:
            return found.message if isinstance(found, Finding) else found
    return None


def pod(node: str = "", cpu: str = "1", phase: str = "Running") -> Obj:
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    spec: Obj = {"containers": containers, **({"nodeName": node} if node else {})}
    return {"metadata": {"namespace": "default"}, "spec": spec, "status": {"phase": phase}}


def requested(cpu: int, pods: int) -> Obj:
    return {"requested": {"cpu": cpu, "pods": pods}}


LAST = (99, "configmaps", "x", None, None)  # The next commit: then the one before is judged.


def test_a_bind_that_is_not_written_down_is_found() -> None:
    bound = (2, "pods", "p", pod(), pod("n"))
    assert told(LedgerIsTheSum(), bound, LAST) == (
        "nodeledgers.fathom.dev of n: cpu: the ledger has 0, the sum is 1000"
    )


def test_what_is_given_back_twice_is_found() -> None:
    bound = (2, "pods", "p", pod(), pod("n"))
    again = (3, BOOKS, "n", requested(1000, 1), None)
    found = told(LedgerIsTheSum(), bound, (2, BOOKS, "n", None, requested(1000, 1)), again, LAST)
    assert found is not None


def test_a_node_that_is_bound_too_full_is_found() -> None:
    node = {"status": {"allocatable": {"cpu": "1"}}}
    made = (1, "nodes", "n", None, node)
    first, second = ((2, "pods", "p", pod(), pod("n")), (3, "pods", "q", pod(), pod("n")))
    assert told(NobodyIsBoundBeyondALimit(), made, first, LAST) is None
    found = told(NobodyIsBoundBeyondALimit(), made, first, second, LAST)
    assert found == "n has cpu 1000 allocatable, but 2000 is in use"
    ended = (2, "pods", "p", pod("n"), pod("n", phase="Failed"))
    assert told(NobodyIsBoundBeyondALimit(), made, first, ended, second, LAST) is None


def test_a_node_that_is_too_full_of_what_named_it_is_found_but_for_mirror_pods() -> None:
    made = (1, "nodes", "n", None, {"status": {"allocatable": {"cpu": "1"}}})
    first, second = ((2, "pods", "p", None, pod("n")), (3, "pods", "q", None, pod("n")))
    assert told(NobodyIsBoundBeyondALimit(), made, first, LAST) is None
    found = told(NobodyIsBoundBeyondALimit(), made, first, second, LAST)
    assert found == "n has cpu 1000 allocatable, but 2000 is in use"
    ended = (2, "pods", "q", None, pod("n", phase="Failed"))
    again = (3, "pods", "q", pod("n", phase="Failed"), pod("n"))
    assert told(NobodyIsBoundBeyondALimit(), made, first, ended, again, LAST) == found
    static = pod("n")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert told(NobodyIsBoundBeyondALimit(), made, first, (3, "pods", "q", None, static), LAST) is None


def test_a_tenant_that_is_bound_beyond_its_quota_is_found() -> None:
    quota = {"spec": {"limits": [{"resources": {"pods": 1}}]}}
    made = (1, "tenantquotas.fathom.dev", "default", None, quota)
    first, second = ((2, "pods", "p", pod(), pod("n")), (3, "pods", "q", pod(), pod("m")))
    found = told(NobodyIsBoundBeyondALimit(), made, first, second, LAST)
    assert found == "tenant default has a limit of pods 1, but uses 2"
