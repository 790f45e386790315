"""Who may do what to an override, cell by cell, by raw requests and by impersonation.

The table is written by hand: it must not follow from the table that the server follows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, Answer, Api, tell
from tests.security.people import CONTROLLERS, OWN, grant, grant_rule, introduce, lead, own
from tests.security.steering import ANN, MINE, SHIFT, gather, limit, override

from fathom.model.objects import Obj
from fathom.model.user import User

MERGE = {"content-type": "application/merge-patch+json"}
PROPOSALS = f"{OWN}/namespaces/mine/repairproposals"
BOT = "system:serviceaccount:mine:bot"
NODE = "system:node:n1"

# Beside Ann, who has written the override `waits`, which needs approval.
PEOPLE: dict[str, User] = {
    "viewer": User("viewer"),
    "editor": User("editor"),
    "admin": User("other-admin"),
    "author": User(ANN),
    "cluster-admin": User("boss", ("system:masters",)),
    "bot": User(BOT, ("system:serviceaccounts",)),
    "controllers": User(CONTROLLERS),
    "node": User(NODE, ("system:nodes",)),
}

Send = Callable[..., Awaitable[Answer]]

# Columns: create a pause, create a drain, approve, extend, end, write status, remove the finalizer, approve a
# repair. y: allowed.
#                 create drain approve extend end status finalizer proposal
CELLS: dict[str, str] = {
    "viewer":        "  .     .      .      .     .    .       .        .",
    "editor":        "  .     .      .      .     .    .       .        .",
    "admin":         "  y     .      y      y     y    .       .        y",
    "author":        "  y     .      .      y     y    .       .        y",
    "cluster-admin": "  y     y      y      y     y    y       y        y",
    "bot":           "  y     .      .      y     y    .       .        .",
    "controllers":   "  .     .      .      .     .    .       .        .",
    "node":          "  .     .      .      .     .    .       .        .",
}  # fmt: skip
DEEDS = ("create", "drain", "approve", "extend", "end", "status", "finalizer", "proposal")


async def prepare(api: Api) -> None:
    users = (*PEOPLE.values(), User("root"))
    await gather(api, *users)
    for role, who in (("view", "viewer"), ("edit", "editor"), ("admin", "other-admin"), ("admin", BOT)):
        await grant(api, who, role, "mine")
    impersonating = {"verbs": ["impersonate"], "apiGroups": [""]}
    kinds = {"resources": ["users", "groups", "serviceaccounts"]}
    await grant_rule(api, "impersonator", "acts", {**impersonating, **kinds})
    introduce(api, *users, User("impersonator"))
    await limit(api, approvals="on")
    shift = override("waits", changes=SHIFT)
    shift["metadata"]["finalizers"] = ["fathom.dev/proof"]
    assert (await api.post(MINE, shift, token=ANN)).status == 201
    fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
    subject = {"kind": "Pod", "name": "x", "namespace": "mine"}
    proposal = own("repairproposals", "p", {"subject": subject, "problem": "p", "action": "Delete"})
    assert (await api.post(PROPOSALS, proposal, token=CONTROLLERS, headers=fence)).status == 201


async def attempt(deed: str, send: Send) -> int:
    waits = f"{MINE}/waits"
    drain = override("d", target="node/n", changes={"drain": True})
    patches: dict[str, tuple[str, Obj]] = {
        "approve": (f"{waits}/approval", {"status": {"approval": {"approved": True}}}),
        "extend": (waits, {"spec": {"expiresAfter": "30m", "reason": "more"}}),
        "status": (f"{waits}/status", {"status": {"active": True}}),
        "finalizer": (waits, {"metadata": {"finalizers": []}}),
        "proposal": (f"{PROPOSALS}/p/approval", {"status": {"approved": True}}),
    }
    if deed in patches:
        path, body = patches[deed]
        return (await send("PATCH", path, body)).status
    if deed == "end":
        return (await send("DELETE", waits)).status
    if deed == "create":
        return (await send("POST", MINE, override("new"))).status
    return (await send("POST", MINE.replace("mine", "fathom-system"), drain)).status


def allowed(status: int) -> bool:
    assert status in {200, 201, 403}, status
    return status != 403


@pytest.mark.parametrize("who", CELLS)
def test_each_cell_by_raw_requests(who: str, tmp_path: Path) -> None:
    cells = CELLS[who].split()
    done: list[str] = []

    def story_of(deed: str) -> Callable[[Api], Awaitable[None]]:
        async def story(api: Api) -> None:
            await prepare(api)

            async def send(method: str, path: str, body: Any = None) -> Answer:
                headers = MERGE if method == "PATCH" else {}
                return await api.call(method, path, body, token=PEOPLE[who].name, headers=headers)

            done.append("y" if allowed(await attempt(deed, send)) else ".")

        return story

    for deed in DEEDS:
        tell(story_of(deed), tmp_path / deed)
    assert dict(zip(DEEDS, done, strict=True)) == dict(zip(DEEDS, cells, strict=True))


# The same by users who may act as others, for every user that they may act as. Deeds that stay refused to
# them in whatever name, because the real user counts too: the author approves nothing of their own, and no
# account approves anything.
LOST: dict[str, frozenset[str]] = {
    "impersonator": frozenset(),  # The audit log has both names.
    ANN: frozenset({"approve"}),
    BOT: frozenset({"approve", "proposal"}),
    CONTROLLERS: frozenset({"approve", "proposal"}),
}


def by_impersonation(real: str, who: str) -> dict[str, str]:
    return {
        deed: "." if deed in LOST[real] else cell
        for deed, cell in zip(DEEDS, CELLS[who].split(), strict=True)
    }


async def let_act_as_others(api: Api) -> None:
    for number, actor in enumerate((ANN, BOT, CONTROLLERS)):
        kinds = {"resources": ["users", "groups", "serviceaccounts"]}
        await grant_rule(api, actor, f"acts-{number}", {"verbs": ["impersonate"], "apiGroups": [""], **kinds})


def acting(api: Api, real: str, who: str, *, query: str = "") -> Send:
    """Sends requests of the real user in the name of another."""
    user = PEOPLE[who]

    async def send(method: str, path: str, body: Any = None) -> Answer:
        headers = {**(MERGE if method == "PATCH" else {}), "impersonate-user": user.name}
        if user.groups:
            headers["impersonate-group"] = user.groups[0]
        return await api.call(method, f"{path}{query}", body, token=real, headers=headers)

    return send


@pytest.mark.parametrize("real", LOST)
def test_each_cell_by_impersonation_in_a_dry_run(real: str, tmp_path: Path) -> None:
    """A dry run passes every check and changes nothing, so all cells are tried on one server."""

    async def story(api: Api) -> None:
        await prepare(api)
        await let_act_as_others(api)
        for who in CELLS:
            send = acting(api, real, who, query="?dryRun=All")
            done = {deed: "y" if allowed(await attempt(deed, send)) else "." for deed in DEEDS}
            assert (who, done) == (who, by_impersonation(real, who))

    tell(story, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("who", CELLS)
@pytest.mark.parametrize("real", LOST)
def test_each_cell_by_impersonation(real: str, who: str, tmp_path: Path) -> None:
    done: dict[str, str] = {}

    def story_of(deed: str) -> Callable[[Api], Awaitable[None]]:
        async def story(api: Api) -> None:
            await prepare(api)
            await let_act_as_others(api)
            done[deed] = "y" if allowed(await attempt(deed, acting(api, real, who))) else "."

        return story

    for deed in DEEDS:
        tell(story_of(deed), tmp_path / deed)
    assert done == by_impersonation(real, who)


def test_who_wrote_it_as_another_does_not_approve_it_under_the_own_name(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        introduce(api, User("boss", ("system:masters",)), User("other-admin"))
        made = await api.call(
            "POST", MINE, override("theirs", changes=SHIFT), token="boss", headers={"impersonate-user": ANN}
        )
        assert made.status == 201, made.obj
        yes = {"status": {"approval": {"approved": True}}}
        for who, status in (("boss", 403), ("other-admin", 200)):
            answer = await api.call("PATCH", f"{MINE}/theirs/approval", yes, token=who, headers=MERGE)
            assert answer.status == status, (who, answer.obj)
        assert (await api.delete(f"{MINE}/theirs", token=ADMIN)).status == 200

    tell(story, tmp_path)
