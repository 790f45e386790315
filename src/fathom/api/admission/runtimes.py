"""RuntimeClass: sets a pod's overhead and the nodes that can run it, from its class."""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Key, Obj, lookup
from fathom.model.quantity import parse
from fathom.model.view import View

CLASSES = "runtimeclasses.node.k8s.io"


class RuntimeClass(Plugin):
    name = "RuntimeClass"
    resources = frozenset({"pods"})
    operations = frozenset({CREATE})
    trusted = True
    reads = (Reads("RuntimeClass"),)
    writes = (Writes("Pod", ("spec.nodeSelector", "spec.overhead", "spec.tolerations")),)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        pod = attempt.obj
        assert pod is not None
        spec = pod.get("spec") or {}
        name = spec.get("runtimeClassName")
        if not name:
            return pod
        seen = view.get(CLASSES, Key("", str(name)))
        if seen is None:
            raise refused(attempt, f'pod rejected: RuntimeClass "{name}" not found')
        added = {**_overhead(attempt, spec, seen.obj), **_scheduling(attempt, spec, seen.obj)}
        return {**pod, "spec": {**spec, **added}} if added else pod


def _overhead(attempt: WriteAttempt, spec: Obj, runtime_class: Obj) -> Obj:
    fixed = lookup(runtime_class, "overhead", "podFixed")
    if not fixed:
        return {}
    if spec.get("overhead") and not _alike(spec["overhead"], fixed):
        raise refused(attempt, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    return {"overhead": fixed}


def _alike(first: Obj, second: Obj) -> bool:
    amounts = ({name: parse(str(amount)) for name, amount in each.items()} for each in (first, second))
    return next(amounts) == next(amounts)


def _scheduling(attempt: WriteAttempt, spec: Obj, runtime_class: Obj) -> Obj:
    added: Obj = {}
    wanted, selector = (
        lookup(runtime_class, "scheduling", "nodeSelector") or {},
        spec.get("nodeSelector") or {},
    )
    clashing = next((key for key in wanted if selector.get(key, wanted[key]) != wanted[key]), None)
    if clashing is not None:
        raise refused(
            attempt,
            f"conflict: runtimeClass.scheduling.nodeSelector[{clashing}] = {wanted[clashing]};"
            f" pod.spec.nodeSelector[{clashing}] = {selector[clashing]}",
        )
    if wanted:
        added["nodeSelector"] = {**selector, **wanted}
    tolerated = spec.get("tolerations") or []
    more = [
        toleration
        for toleration in lookup(runtime_class, "scheduling", "tolerations") or ()
        if toleration not in tolerated
    ]
    if more:
        added["tolerations"] = [*tolerated, *more]
    return added
