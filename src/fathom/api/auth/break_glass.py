"""Break-glass: while an override with `breakGlassRole` is active, its author has the rules of that role.

No binding is ever written, so none can be left over: each request is judged by the override as it is then.
Only what roles do not allow comes here. Some things remain out of reach, so that a use of break-glass can
neither prolong nor hide itself, nor outlive its hour.
"""

from __future__ import annotations

import msgspec

from fathom.api.auth.rbac import CLUSTER_ROLES, Rbac, RbacDecision
from fathom.api.auth.rules import RbacRule, ask_of, grants
from fathom.api.request import RequestTarget
from fathom.kinds.override_changes import BREAK_GLASS, HOUR_NS
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, override_active
from fathom.kinds.shape import GROUP, read
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.causes import quoted
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.times import moment_ns
from fathom.model.user import User
from fathom.model.view import View
from fathom.seams.outside import Clock

# On a ClusterRole: it may be used this way. On what is made under it: the override's UID.
MARK, USABLE = "fathom.dev/break-glass", "true"

READS = frozenset({"get", "list", "watch"})
# Writing these would lift the rules of overrides.
RULES_OF_OVERRIDES = frozenset({"scheduleroverrides", "steeringlimits", "overridereviews", "repairproposals"})
# To act as another, or to grant what one does not hold by a role.
NEVER = frozenset({"impersonate", "escalate", "bind"})


def is_marked(role: Obj) -> bool:
    annotations = metadata(role).get("annotations") or {}
    return bool(annotations.get(MARK) == USABLE)


class BreakGlass:
    def __init__(self, view: View, rbac: Rbac, clock: Clock) -> None:
        self._view = view
        self._rbac = rbac
        self._clock = clock
        # Overrides with breakGlassRole by their authors, as of this revision of all overrides.
        self._by_author: tuple[int, dict[str, tuple[SchedulerOverride, ...]]] = (-1, {})

    def decide(self, user: User, target: RequestTarget) -> RbacDecision | None:
        """None: no override allows it. An impersonated user has nothing by it: the audit log must say who
        acted."""
        overrides = self._of(user.name)
        if not overrides or user.impersonator or _is_out_of_reach(target):
            return None
        for override in overrides:
            if self._covers(override, target.namespace if target.plural else "") and self._allows(
                override, target
            ):
                return _allowed_by(override)
        return None

    def active_for(self, user: User, namespace: str) -> SchedulerOverride | None:
        """The override under which the user acts in the namespace ('': in the cluster), if there is one."""
        overrides = () if user.impersonator else self._of(user.name)
        return next((override for override in overrides if self._covers(override, namespace)), None)

    def _of(self, author: str) -> tuple[SchedulerOverride, ...]:
        revision = self._view.revision(OVERRIDES)
        if self._by_author[0] != revision:
            self._by_author = (revision, _index(self._view))
        return self._by_author[1].get(author, ())

    def _covers(self, override: SchedulerOverride, namespace: str) -> bool:
        home, now_ns = override.metadata.namespace, self._clock.now_ns()
        if home not in {SYSTEM_NAMESPACE, namespace}:
            return False
        created_ns = moment_ns(override.metadata.creation_timestamp)
        latest_ns = (created_ns or 0) + BREAK_GLASS.hours_max * HOUR_NS
        return now_ns < latest_ns and override_active(override, now_ns)

    def rules(self, user: User, namespace: str) -> tuple[RbacRule, ...]:
        """The rules that the user has in the namespace by overrides."""
        overrides = () if user.impersonator else self._of(user.name)
        covering = (override for override in overrides if self._covers(override, namespace))
        return tuple(rule for override in covering for rule in self._rules_of(override))

    def _allows(self, override: SchedulerOverride, target: RequestTarget) -> bool:
        ask = ask_of(target)
        return any(
            grants(rule, ask) and (not rule.names or not target.plural or target.name in rule.names)
            for rule in self._rules_of(override)
        )

    def _rules_of(self, override: SchedulerOverride) -> tuple[RbacRule, ...]:
        role = override.spec.changes.break_glass_role
        seen = self._view.get(CLUSTER_ROLES, Key("", role))
        if seen is None or not is_marked(seen.obj):
            return ()
        return self._rbac.role_rules({"kind": "ClusterRole", "name": role}, "") or ()


def _index(view: View) -> dict[str, tuple[SchedulerOverride, ...]]:
    by_author: dict[str, tuple[SchedulerOverride, ...]] = {}
    for seen in view.list(OVERRIDES):
        if not lookup(seen.obj, "spec", "changes", "breakGlassRole"):
            continue
        try:
            override = read(SchedulerOverride, seen.obj)
        except msgspec.ValidationError:
            continue  # No fathom server stores one.
        author = override.status.author
        if author and not override.status.author_impersonated_by:
            by_author[author] = (*by_author.get(author, ()), override)
    return by_author


def _is_out_of_reach(target: RequestTarget) -> bool:
    if target.verb in NEVER:
        return True
    if target.group != GROUP or target.verb in READS:
        return False
    return target.plural in RULES_OF_OVERRIDES or target.subresource == "approval"


def _allowed_by(override: SchedulerOverride) -> RbacDecision:
    name = f"{override.metadata.namespace}/{override.metadata.name}"
    role = override.spec.changes.break_glass_role
    reason = f"break-glass: allowed by SchedulerOverride {quoted(name)} of ClusterRole {quoted(role)}"
    return RbacDecision(True, reason, override=name)
