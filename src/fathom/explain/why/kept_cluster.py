"""The cluster as the scheduler sees it, kept between questions and brought up to date by what has changed.

Making it anew takes some 55 µs for each pod and node; looking for changes takes a fraction of that. Its
answers are those of a new one (`cluster_of`): only the time differs.
"""

from __future__ import annotations

from collections.abc import Mapping

from fathom.explain.evidence import Objects
from fathom.explain.why.case import cluster_of, resource_name
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.watched_kinds import KINDS

POD, NAMESPACE = "Pod", "Namespace"
RESOURCES = {kind.name: resource_name(kind.resource.group, kind.resource.plural) for kind in KINDS}

Held = Mapping[Key, Obj]


class KeptCluster:
    def __init__(self, rules: Rules = RULES) -> None:
        self._rules = rules
        self._held: dict[str, Held] = {}  # By kind, what the view was made from. Empty: there is none yet.
        self._view = ClusterView(rules=rules)

    def view(self, objects: Objects, *, now_ns: int) -> ClusterView:
        """The view of these objects. It is valid until the next call."""
        listed: dict[str, Held] = {
            kind: {key_of(obj): obj for obj in objects.list(resource)} for kind, resource in RESOURCES.items()
        }
        if not self._held or self._tenants_changed(listed[NAMESPACE]):
            self._view = cluster_of(objects, self._rules)
        else:
            for kind in sorted(listed, key=lambda kind: kind == POD):
                self._update(kind, self._held[kind], listed[kind])
        self._held = listed
        self._view.passing(now_ns=now_ns)
        return self._view

    def _tenants_changed(self, namespaces: Held) -> bool:
        """Then every pod of the namespace is another tenant's, though no pod has changed."""
        before = self._held[NAMESPACE]
        return any(
            self._view.tenant_changed(before.get(key), namespaces.get(key))
            for key in {**before, **namespaces}
        )

    def _update(self, kind: str, before: Held, after: Held) -> None:
        for key, old in before.items():
            new = after.get(key)
            if new is not None and (new is old or _revision(new) == _revision(old) != ""):
                continue
            if kind == POD:
                self._change_pod(old, new)
            else:
                self._view.put(kind, old, new)
        for key, new in after.items():
            if key not in before:
                if kind == POD:
                    self._view.put_pod(new)
                else:
                    self._view.put(kind, None, new)

    def _change_pod(self, old: Obj, new: Obj | None) -> None:
        """A pod that is gone, or bound by now, holds no room on the node it was nominated to."""
        uid = uid_of(old)
        if new is None or uid_of(new) != uid or lookup(new, "spec", "nodeName"):
            self._view.unnominate(uid)
        if new is None or uid_of(new) != uid:
            self._view.table.remove_pod(uid)
            self._view.gone(uid)
        if new is not None:
            self._view.put_pod(new)


def _revision(obj: Obj) -> str:
    return str(lookup(obj, "metadata", "resourceVersion") or "")
