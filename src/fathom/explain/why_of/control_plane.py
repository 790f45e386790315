"""Whether the control plane itself is the cause: nobody leads, a controller is behind, its breaker is open.

Read from the Lease of the part, from what its processes say of themselves, and from its last decision.
"""

from __future__ import annotations

from fathom.explain.evidence import Evidence, ProcessState
from fathom.explain.why.answer import NOBODY, Change
from fathom.explain.why.commands import word
from fathom.explain.why_of.lookups import age_s, generation_of, last_decision, observed_generation
from fathom.model.accounts import SYSTEM_NAMESPACE, is_lease_for
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.resource_names import LEASES

SCHEDULER, CONTROLLERS = "scheduler", "controllers"
OPERATOR = "a cluster operator"


def part_trouble(evidence: Evidence, part: str) -> str:
    """Why this part of the control plane does no work now; '' if nothing shows that it does not."""
    return _lease_trouble(evidence, part) or _process_trouble(evidence, part)


def _lease_trouble(evidence: Evidence, part: str) -> str:
    """A lease that nobody renews. No Lease at all says nothing: a lone process may run without one."""
    leases = [
        lease
        for lease in evidence.objects.list(LEASES, SYSTEM_NAMESPACE)
        if is_lease_for(Key(SYSTEM_NAMESPACE, part), key_of(lease))
    ]
    held = [trouble for lease in leases if (trouble := _unheld(evidence, lease))]
    return held[0] if leases and len(held) == len(leases) else ""


def _unheld(evidence: Evidence, lease: Obj) -> str:
    name = "/".join(key_of(lease))
    if not lookup(lease, "spec", "holderIdentity"):
        return f"no process leads: lease {name} has no holder"
    unrenewed_s = age_s(evidence, lookup(lease, "spec", "renewTime"))
    lasts_s = float(lookup(lease, "spec", "leaseDurationSeconds") or 0)
    if unrenewed_s is None or unrenewed_s <= max(lasts_s, 1.0):
        return ""
    holder = lookup(lease, "spec", "holderIdentity")
    return f"no process leads: lease {name} of {holder} was not renewed for {unrenewed_s:.0f} s"


def _process_trouble(evidence: Evidence, part: str) -> str:
    leaders = [process for process in processes_of(evidence, part) if process.leads is not False]
    for process in leaders:
        if not process.answered:
            return f"process {process.process} does not answer"
        if process.breaker:
            return f"process {process.process} sends no requests: {process.breaker}"
    return ""


def processes_of(evidence: Evidence, part: str) -> list[ProcessState]:
    return [process for process in evidence.processes if part in process.parts]


def unobserved(evidence: Evidence, obj: Obj, controller: str, *, part: str = CONTROLLERS) -> str:
    """Why a controller has not observed the newest generation; '' if it has."""
    generation, observed = generation_of(obj), observed_generation(obj)
    if observed >= generation:
        return ""
    behind = f"its controller has observed generation {observed}, but the newest is {generation}"
    trouble = part_trouble(evidence, part) or held_back(evidence, obj, controller)
    return f"{behind}: {trouble}" if trouble else behind


def held_back(evidence: Evidence, obj: Obj, controller: str) -> str:
    """What the controller's last decision waits for, if it was held."""
    recorded = last_decision(evidence, obj, controller)
    if recorded is None or recorded.kept.decision.verdict != "hold":
        return ""
    decision = recorded.kept.decision
    return f"its controller waits until its view is fresh enough: {decision.need or decision.message}"


def restart(trouble: str, part: str) -> Change | None:
    """What an operator does about it; None where the control plane is not the cause."""
    if not trouble:
        return None
    if "no process leads" in trouble or "does not answer" in trouble:
        return Change(f"start the {part}", f"fathom serve {word(part)}", OPERATOR)
    return Change("wait until the control plane has caught up", "", NOBODY)
