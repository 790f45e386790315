"""Sessions and one-time codes, by a clock and secrets of the test."""

from __future__ import annotations

import itertools

import pytest

from fathom.api.auth.credentials import Credential
from fathom.model.errors import ApiError
from fathom.model.user import User
from fathom.web.sessions import CODES_MAX, SESSIONS_MAX, SESSIONS_OF_USER_MAX, Sessions

HOUR_NS = 3600 * 10**9
VERA = Credential(User("vera"), token=b"digest")
OSCAR = Credential(User("oscar"), token=b"other")


class Clock:
    def __init__(self) -> None:
        self.ns = 10**18

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ns(self) -> int:
        return self.ns


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.void: set[str] = set()
        count = itertools.count()
        self.sessions = Sessions(self.clock, lambda: f"secret-{next(count)}", self.is_valid)

    def is_valid(self, credential: Credential) -> bool:
        return credential.user.name not in self.void

    def begin(self, credential: Credential = VERA, *, changes: bool = False) -> tuple[str, str]:
        begun = self.sessions.begin(credential, allow_changes=changes, browser="b", remote="r")
        return begun.cookie, begun.key

    def finds(self, secrets: tuple[str, str]) -> bool:
        return self.sessions.find(cookie=secrets[0], key=secrets[1]) is not None


def test_a_code_is_good_once_and_carries_whether_changes_are_allowed() -> None:
    world = World()
    text = world.sessions.make_code(VERA, allow_changes=True)
    code = world.sessions.redeem(text)
    assert code is not None
    assert (code.credential, code.allow_changes) == (VERA, True)
    assert world.sessions.redeem(text) is None


def test_a_code_is_void_after_ten_minutes() -> None:
    world = World()
    text = world.sessions.make_code(VERA, allow_changes=False)
    world.clock.ns += HOUR_NS // 6
    assert world.sessions.redeem(text) is None


def test_a_session_needs_both_its_cookie_and_its_key() -> None:
    world = World()
    cookie, key = world.begin()
    other_cookie, other_key = world.begin()
    assert world.finds((cookie, key))
    assert not world.finds((cookie, other_key))
    assert not world.finds((cookie, ""))
    assert not world.finds(("", key))
    assert world.finds((other_cookie, other_key))


def test_a_session_ends_after_an_hour_without_a_request() -> None:
    world = World()
    used, unused = world.begin(), world.begin()
    world.clock.ns += HOUR_NS // 2
    assert world.finds(used)
    world.clock.ns += HOUR_NS // 2
    assert (world.finds(used), world.finds(unused)) == (True, False)


def test_a_session_ends_after_twelve_hours_however_much_it_is_used() -> None:
    world = World()
    secrets = world.begin()
    for _ in range(23):
        world.clock.ns += HOUR_NS // 2
        assert world.finds(secrets)
    world.clock.ns += HOUR_NS // 2
    assert not world.finds(secrets)


def test_an_open_watch_keeps_its_session_in_use_and_ends_with_it() -> None:
    world = World()
    begun = world.sessions.begin(VERA, allow_changes=False, browser="", remote="")
    closed = []
    begun.session.streams[1] = lambda: closed.append("watch")
    for _ in range(23):
        world.clock.ns += HOUR_NS // 2
        world.sessions.sweep()
    assert closed == []
    world.clock.ns += HOUR_NS // 2
    world.sessions.sweep()
    assert closed == ["watch"]
    assert world.sessions.all() == []


def test_a_session_ends_when_its_credential_is_void() -> None:
    world = World()
    secrets = world.begin()
    world.void.add("vera")
    assert not world.finds(secrets)
    world.void.clear()
    assert not world.finds(secrets)


def test_a_user_with_too_many_sessions_loses_the_one_unused_for_longest() -> None:
    world = World()
    first, second, *_ = [world.begin() for _ in range(SESSIONS_OF_USER_MAX)]
    world.clock.ns += 1
    assert world.finds(first)
    newest = world.begin()
    assert (world.finds(first), world.finds(second), world.finds(newest)) == (True, False, True)
    assert len(world.sessions.all()) == SESSIONS_OF_USER_MAX


def test_there_are_at_most_so_many_sessions_and_codes() -> None:
    world = World()
    for number in range(SESSIONS_MAX):
        world.begin(Credential(User(f"user-{number}")))
    with pytest.raises(ApiError, match="too many sessions"):
        world.begin(OSCAR)
    for number in range(CODES_MAX):
        world.sessions.make_code(Credential(User(f"user-{number}")), allow_changes=False)
    with pytest.raises(ApiError, match="too many one-time links"):
        world.sessions.make_code(OSCAR, allow_changes=False)


def test_secrets_are_kept_as_digests_only() -> None:
    world = World()
    secrets = [world.sessions.make_code(VERA, allow_changes=False), *world.begin()]
    kept = repr([world.sessions._codes, world.sessions._sessions])
    assert [secret for secret in secrets if secret in kept] == []
