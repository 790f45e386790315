"""Service account tokens: made, checked, forged, outlived."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.api.auth.cluster import Cluster, StoppedClock, ids, node, pod, secret, service_account

from fathom.api.auth.accounts import ISSUER, Accepted, AccountTokens, Refused
from fathom.api.auth.jws import PrivateKey, SigningKey
from fathom.api.auth.token_requests import request_token
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, with_metadata
from fathom.model.user import AUTHENTICATED, User

EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
BOT = service_account("bot")


class World:
    def __init__(self, *objects: Obj, key: PrivateKey = EC_KEY) -> None:
        self.cluster = Cluster(BOT, *objects)
        self.clock = StoppedClock()
        self.tokens = AccountTokens(SigningKey(key), self.cluster, self.clock, ids())


def part(token: str, index: int) -> Any:
    text = token.split(".")[index]
    return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize("key", [EC_KEY, RSA_KEY], ids=["ES256", "RS256"])
def test_a_token_stands_for_its_account(key: PrivateKey) -> None:
    world = World(key=key)
    token = world.tokens.issue_token(BOT, expiration_s=600)
    claims = part(token, 1)
    jti = claims["jti"]
    expected = User(
        "system:serviceaccount:default:bot",
        groups=("system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED),
        uid="sa-uid",
        extra=(("authentication.kubernetes.io/credential-id", (f"JTI={jti}",)),),
    )
    assert world.tokens.check(token) == Accepted(expected, (ISSUER,))
    assert claims == {
        "aud": [ISSUER],
        "exp": 1_800_000_600,
        "iat": 1_800_000_000,
        "iss": ISSUER,
        "jti": jti,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "bot", "uid": "sa-uid"}},
        "nbf": 1_800_000_000,
        "sub": "system:serviceaccount:default:bot",
    }


def test_a_pods_token_names_the_pod_and_its_node() -> None:
    web = pod("web", on="n1", serviceAccountName="bot")
    world = World(web, node("n1"))
    token = world.tokens.issue_token(BOT, bound=web)
    found = world.tokens.check(token)
    assert isinstance(found, Accepted)
    assert dict(found.user.extra) | {"authentication.kubernetes.io/credential-id": ()} == {
        "authentication.kubernetes.io/credential-id": (),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": ("node-uid",),
        "authentication.kubernetes.io/pod-name": ("web",),
        "authentication.kubernetes.io/pod-uid": ("pod-uid",),
    }


def test_a_token_ends_when_its_time_is_over_also_when_it_was_seen_before() -> None:
    world = World()
    token = world.tokens.issue_token(BOT, expiration_s=600)
    world.clock.pass_s(599)
    assert isinstance(world.tokens.check(token), Accepted)
    world.clock.pass_s(1)
    assert world.tokens.check(token) == Refused("service account token has expired")


def test_a_token_from_the_future_is_refused_beyond_a_little_skew() -> None:
    world = World()
    token = world.tokens.issue_token(BOT)
    world.clock.pass_s(-10)
    assert isinstance(world.tokens.check(token), Accepted)
    world.clock.pass_s(-1)
    assert world.tokens.check(token) == Refused("service account token is not valid yet")


def test_a_token_is_good_only_before_its_audience() -> None:
    world = World()
    token = world.tokens.issue_token(BOT, audiences=["vault"])
    assert world.tokens.check(token) == Refused(
        f"token audiences [vault] is invalid for the target audiences [{ISSUER}]"
    )
    found = world.tokens.check(token, audiences=["other", "vault"])
    assert isinstance(found, Accepted)
    assert found.audiences == ("vault",)


def test_a_token_ends_with_its_account_also_if_one_of_the_same_name_follows() -> None:
    world = World()
    token = world.tokens.issue_token(BOT)
    world.cluster.add(service_account("bot", uid="another"))
    assert world.tokens.check(token) == Refused("service account has been deleted")
    world.cluster.add(BOT)
    assert isinstance(world.tokens.check(token), Accepted)
    world.cluster.remove(BOT)
    assert world.tokens.check(token) == Refused("service account has been deleted")


@pytest.mark.parametrize("bound", [pod("web"), secret("s"), node("n1")])
def test_a_token_ends_with_the_object_it_is_bound_to(bound: Obj) -> None:
    world = World(bound)
    token = world.tokens.issue_token(BOT, bound=bound)
    assert isinstance(world.tokens.check(token), Accepted)
    world.cluster.remove(bound)
    assert isinstance(world.tokens.check(token), Refused)


def test_a_pod_that_is_being_deleted_keeps_its_token_for_a_minute() -> None:
    web = pod("web")
    world = World(web)
    token = world.tokens.issue_token(BOT, bound=web, expiration_s=3600)
    world.cluster.add(with_metadata(web, deletionTimestamp="2027-01-15T08:00:00Z"))  # Now.
    world.clock.pass_s(60)
    assert isinstance(world.tokens.check(token), Accepted)
    world.clock.pass_s(1)
    assert isinstance(world.tokens.check(token), Refused)


def test_a_token_of_another_key_is_refused() -> None:
    ours, theirs = World(), World(key=ec.generate_private_key(ec.SECP256R1()))
    assert ours.tokens.check(theirs.tokens.issue_token(BOT)) == Refused("invalid bearer token")


def forged(header: Obj, claims: Obj, signature: bytes = b"") -> str:
    return f"{b64(msgspec.json.encode(header))}.{b64(msgspec.json.encode(claims))}.{b64(signature)}"


def test_no_algorithm_but_the_keys_own_is_accepted() -> None:
    world = World()
    token = world.tokens.issue_token(BOT)
    header, claims = part(token, 0), part(token, 1)
    public = EC_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    attempts = [forged({**header, "alg": "none"}, claims), forged({**header, "alg": "none"}, claims, b"x")]
    signed = forged({**header, "alg": "HS256"}, claims).rpartition(".")[0]
    attempts.append(f"{signed}.{b64(hmac.digest(public, signed.encode(), 'sha256'))}")
    for algorithm in ("RS256", "es256", "", "ES384"):
        attempts.append(forged({**header, "alg": algorithm}, claims, b"x" * 64))
    assert {repr(world.tokens.check(one)) for one in attempts} == {repr(Refused("invalid bearer token"))}


def test_a_change_of_any_character_makes_a_token_invalid() -> None:
    world = World()
    token = world.tokens.issue_token(BOT)
    for at in range(len(token)):
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        assert isinstance(world.tokens.check(changed), Refused), at


@pytest.mark.parametrize("tail", ["!", "=", "==", "\n", " ", "é", "."])
def test_a_token_has_one_spelling(tail: str) -> None:
    world = World()
    token = world.tokens.issue_token(BOT)
    for text in (token + tail, tail + token, token.replace(".", tail + ".", 1)):
        assert world.tokens.check(text) == Refused("invalid bearer token")


def test_another_payload_under_the_same_signature_is_refused() -> None:
    world = World()
    header, _, signature = world.tokens.issue_token(BOT).split(".")
    claims = {**part(world.tokens.issue_token(BOT), 1), "sub": "system:serviceaccount:kube-system:root"}
    assert world.tokens.check(f"{header}.{b64(msgspec.json.encode(claims))}.{signature}") == Refused(
        "invalid bearer token"
    )


@pytest.mark.parametrize(
    "claims",
    [
        {},
        [],
        "x",
        {"iss": "https://elsewhere"},
        {"aud": 7},
        {"exp": "soon"},
        {"sub": "system:serviceaccount:default:root"},
        {"kubernetes.io": None},
        {"kubernetes.io": {"namespace": "default"}},
    ],
)
def test_what_our_key_signed_for_another_purpose_is_not_taken_for_a_token(claims: Any) -> None:
    world = World()
    good = part(world.tokens.issue_token(BOT), 1)
    body = {**good, **claims} if isinstance(claims, dict) and claims else claims
    token = SigningKey(EC_KEY).sign(msgspec.json.encode(body))
    assert isinstance(world.tokens.check(token), Refused)


@given(st.one_of(st.text(), st.from_regex(r"[A-Za-z0-9_=.-]*\.[A-Za-z0-9_=.-]*\.[A-Za-z0-9_=.-]*")))
def test_garbage_is_refused_and_nothing_worse(text: str) -> None:
    assert WORLD.tokens.check(text) == Refused("invalid bearer token")


WORLD = World()


@pytest.mark.parametrize(
    "text",
    ["\ud800.\ud800.x", "a" * 100_000, "..", "." * 10_000, b64(b"[" * 8_000) + ".e30.e30", "e30=.e30=.e30="],
)
def test_odd_texts_are_refused_too(text: str) -> None:
    assert WORLD.tokens.check(text) == Refused("invalid bearer token")


def test_deeply_nested_headers_of_a_token_are_refused() -> None:
    nested = b'{"alg":"ES256","x":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    assert isinstance(WORLD.tokens.check(f"{b64(nested)}.e30.e30"), Refused)


def test_the_memory_of_signatures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.api.auth.accounts.VERIFIED_MAX", 5)
    world = World()
    for _ in range(20):
        assert isinstance(world.tokens.check(world.tokens.issue_token(BOT)), Accepted)
    assert len(world.tokens._verified) == 5


def test_a_simulated_server_signs_the_same_token_again() -> None:
    assert World().tokens.issue_token(BOT) == World().tokens.issue_token(BOT)


# TokenRequest.


def ask(**spec: Any) -> Obj:
    return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}


def test_a_token_request_is_answered_with_a_token_and_its_end() -> None:
    world = World()
    answered = request_token(ask(audiences=["vault"], expirationSeconds=7200), BOT, world.tokens)
    token = answered["status"].pop("token")
    assert answered == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "bot", "namespace": "default"},
        "spec": {"audiences": ["vault"], "expirationSeconds": 7200},
        "status": {"expirationTimestamp": "2027-01-15T10:00:00Z"},
    }
    assert isinstance(world.tokens.check(token, audiences=["vault"]), Accepted)


def test_a_token_request_that_says_nothing_gets_an_hour_for_this_server() -> None:
    answered = request_token(ask(), BOT, World().tokens)
    assert answered["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600}


@pytest.mark.parametrize(
    ("seconds", "code", "why"),
    [
        (599, 422, "may not specify a duration less than 10 minutes"),
        (-1, 422, "may not specify a duration less than 10 minutes"),
        (0, 422, "may not specify a duration less than 10 minutes"),
        ((1 << 32) + 1, 422, "may not specify a duration larger than 2^32 seconds"),
        ("600", 400, "must be a whole number of seconds"),
        (True, 400, "must be a whole number of seconds"),
    ],
)
def test_a_token_request_for_an_unreasonable_time_is_refused(seconds: Any, code: int, why: str) -> None:
    with pytest.raises(ApiError, match="expirationSeconds") as refused:
        request_token(ask(expirationSeconds=seconds), BOT, World().tokens)
    assert (refused.value.code, why in refused.value.message) == (code, True)


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ({"kind": "Pod", "apiVersion": "v1", "name": "web"}, None),
        ({"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "pod-uid"}, None),
        ({"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "old"}, 409),
        ({"kind": "Pod", "apiVersion": "v1", "name": "gone"}, 404),
        ({"kind": "Pod", "apiVersion": "v1", "name": "other"}, 400),
        ({"kind": "Deployment", "apiVersion": "apps/v1", "name": "web"}, 400),
        ({"kind": "Pod"}, 400),
    ],
)
def test_a_token_is_bound_only_to_what_exists_and_runs_as_the_account(ref: Obj, code: int | None) -> None:
    world = World(pod("web", serviceAccountName="bot"), pod("other", serviceAccountName="someone"))
    try:
        request_token(ask(boundObjectRef=ref), BOT, world.tokens)
    except ApiError as error:
        assert error.code == code  # noqa: PT017 - None is an expected answer as well
    else:
        assert code is None


def test_a_digest_given_by_the_caller_is_the_one_that_is_remembered() -> None:
    world = World()
    token = world.tokens.issue_token(BOT)
    digest = hashlib.sha256(token.encode()).digest()
    assert world.tokens.check(token, digest) == world.tokens.check(token)
    assert len(world.tokens._verified) == 1
