"""The right to scale custom kinds: the rules of one role follow the CustomResourceDefinitions.

An autoscaler may target any kind whose definition has a `scale` subresource, and our service accounts hold
rights by resource name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fathom.controllers.housekeeping.writer import HousekeepingWriter
from fathom.model.accounts import SCALE_ROLE
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.resource_names import DEFINITIONS
from fathom.model.view import View
from fathom.model.well_known import AUTO_UPDATE_ANNOTATION

ROLES = "clusterroles.rbac.authorization.k8s.io"
PATH = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{SCALE_ROLE}"


def scale_rules(definitions: Iterable[Obj]) -> list[Obj]:
    """One rule for each group that has a kind with a `scale` subresource."""
    resources: dict[str, set[str]] = defaultdict(set)
    for definition in definitions:
        spec = definition.get("spec") or {}
        if any(lookup(version, "subresources", "scale") for version in spec.get("versions") or ()):
            resources[str(spec.get("group"))].add(f"{lookup(spec, 'names', 'plural')}/scale")
    return [
        {"verbs": ["get", "patch"], "apiGroups": [group], "resources": sorted(resources[group])}
        for group in sorted(resources)
    ]


class ScaleRights:
    def __init__(self, *, writer: HousekeepingWriter, view: View) -> None:
        self._writer = writer
        self._view = view

    async def reconcile(self, *, cause: WakeCause) -> None:
        role = self._view.get(ROLES, Key("", SCALE_ROLE))
        if (
            role is None
            or (metadata(role.obj).get("annotations") or {}).get(AUTO_UPDATE_ANNOTATION) != "true"
        ):
            return
        rules = scale_rules(seen.obj for seen in self._view.list(DEFINITIONS))
        if (role.obj.get("rules") or []) != rules:
            subject = Subject(ROLES, "", SCALE_ROLE, uid_of(role.obj))
            why = "the kinds that can be scaled changed"
            await self._writer.write(
                "PATCH", PATH, subject, cause=cause, why=why, body={"rules": rules}, content_type=MERGE_PATCH
            )
