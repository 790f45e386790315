"""People who steer: overrides as they send them, and limits that ask for a second person."""

from __future__ import annotations

from typing import Any

from tests.api.harness import Answer, Api
from tests.security.people import OWN, grant, grant_rule, introduce, namespaces

from fathom.model.objects import Obj
from fathom.model.user import User

ANN, TOM, ROOT = "ann", "tom", "root"  # Each is known by a token that is the name.
MINE = f"{OWN}/namespaces/mine/scheduleroverrides"
SYSTEM = f"{OWN}/namespaces/fathom-system/scheduleroverrides"
LIMITS = f"{OWN}/namespaces/fathom-system/steeringlimits/default"
EVERY_VERB = {"verbs": ["*"], "apiGroups": ["fathom.dev"], "resources": ["*"]}


def override(name: str = "o", *, changes: Obj | None = None, **spec: Any) -> Obj:
    usual = {"target": "workload/web", "scope": "cluster", "reason": "incident", "expiresAfter": "10m"}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name},
        "spec": {**usual, "changes": changes or {"pauseRollout": True}, **spec},
    }


SHIFT = {"trafficWeights": {"eu-west": 1}}  # A risky change.


async def gather(api: Api, *others: User) -> None:
    """Ann and Tom administer `mine`; Root administers the cluster, by roles, and may impersonate."""
    introduce(api, User(ANN), User(TOM), User(ROOT), *others)
    await namespaces(api, "mine")
    for who in (ANN, TOM):
        await grant(api, who, "admin", "mine")
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    await grant_rule(api, ROOT, "root", everything)


async def limit(api: Api, **spec: Any) -> None:
    answer = await api.patch(LIMITS, {"spec": spec})
    assert answer.status == 200, answer.obj


async def decide(
    api: Api, path: str, by: str, *, approved: bool | None = True, as_user: str = "", **more: Any
) -> Answer:
    headers = {"content-type": "application/merge-patch+json"}
    if as_user:
        headers["impersonate-user"] = as_user
    sent = {"status": {"approval": {"approved": approved, **more}}}
    return await api.call("PATCH", f"{path}/approval", sent, token=by, headers=headers)


def message(answer: Answer) -> str:
    return str(answer.obj.get("message", ""))
