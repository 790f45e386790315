"""Kinds that fathom stores and no part of fathom acts on: another control plane would have to."""

from __future__ import annotations

from typing import NamedTuple

from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import explained
from fathom.explain.why_of.lookups import ExplainPod, age_s
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.resource_names import LEASES

# The controllers of Kubernetes may run beside fathom: whoever holds this lease runs these kinds.
OTHERS = Key("kube-system", "kube-controller-manager")


class Uncontrolled(NamedTuple):
    kind: str
    makes: str  # What its controller would create.
    instead: str


KINDS = {
    "statefulsets.apps": Uncontrolled("StatefulSet", "pods", "run its pods by a Deployment"),
    "daemonsets.apps": Uncontrolled("DaemonSet", "pods", "run its pods by a Deployment"),
    "cronjobs.batch": Uncontrolled("CronJob", "Jobs", "create its Jobs by hand"),
}


def explain_uncontrolled(evidence: Evidence, obj: Obj, explain_pod: ExplainPod | None = None) -> Explanation:
    about = KINDS[evidence.subject.resource]
    name = f"{about.kind} {'/'.join(key_of(obj))}"
    others = _others_run(evidence)
    if others or evidence.attached:
        verdict = f"is run by {'kube-controller-manager' if others else 'controllers of that cluster'}"
        return explained(evidence, name=name, stage="uncontrolled", verdict=verdict, as_wanted=True)
    return explained(
        evidence,
        name=name,
        stage="uncontrolled",
        verdict="is not run",
        cause=f"fathom has no controller for {about.kind}s, so nobody creates its {about.makes}",
        change=_instead(about, obj),
    )


def _others_run(evidence: Evidence) -> bool:
    lease = evidence.objects.get(LEASES, OTHERS) or {}
    unrenewed_s = age_s(evidence, lookup(lease, "spec", "renewTime"))
    lasts_s = float(lookup(lease, "spec", "leaseDurationSeconds") or 0)
    return unrenewed_s is not None and unrenewed_s <= lasts_s


def _instead(about: Uncontrolled, obj: Obj) -> Change:
    namespace, name = key_of(obj)
    command = ""
    if about.kind == "CronJob":
        command = f"kubectl create job {word(name)}-now --from=cronjob/{word(name)} -n {word(namespace)}"
    return Change(about.instead, command, f"the owner of {about.kind.lower()}/{name}")
