"""Which part of fathom a write comes from: only fathom's own accounts may say, and only what they are."""

from __future__ import annotations

import pytest

from fathom.model.accounts import (
    CONTROLLERS,
    GATEWAY,
    HOUSEKEEPING,
    SCHEDULER,
    believed_actor,
    node_user,
)
from fathom.model.user import MASTERS, User


@pytest.mark.parametrize(
    ("user", "actor"),
    [
        (User(SCHEDULER), "scheduler"),
        (User(SCHEDULER), "scheduler-batch-0of2"),
        (User(CONTROLLERS), "controllers/deployment"),
        (User(GATEWAY), "gateway"),
        (User(HOUSEKEEPING, (MASTERS,)), "housekeeping/garbage-collector"),
        (node_user("node-1"), "agent/node-1"),
        (User("system:serviceaccount:fathom-system:greeter"), "greeter/greetings"),
    ],
)
def test_an_account_of_ours_is_believed_about_itself(user: User, actor: str) -> None:
    assert believed_actor(user, actor) == actor


@pytest.mark.parametrize(
    ("user", "actor"),
    [
        (User("jane", (MASTERS,)), "scheduler"),
        (User("system:serviceaccount:default:scheduler"), "scheduler"),
        (User(GATEWAY), "scheduler"),
        (User(GATEWAY), "gateways"),
        (User(CONTROLLERS), ""),
        (User(CONTROLLERS), "controllers/" + "x" * 600),
        (node_user("node-1"), "agent/node-2"),
        (node_user("node-1"), "agent"),
    ],
)
def test_others_are_not_believed_and_nobody_is_about_another(user: User, actor: str) -> None:
    assert believed_actor(user, actor) == ""
