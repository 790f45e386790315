"""Who is asking, with every kind of credential, good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from tests.api.auth.cluster import (
    Cluster,
    StoppedClock,
    binding,
    cluster_binding,
    cluster_role,
    ids,
    request,
    role,
    rule,
    service_account,
    to_user,
    user,
)

from fathom.api.auth.accounts import Accepted, AccountTokens, Refused
from fathom.api.auth.authenticate import NOBODY, Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.certificates import ensure_pki, issue_client
from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import BadTokens, digest, parse_tokens
from fathom.api.request import Request
from fathom.model.errors import ApiError
from fathom.model.user import AUTHENTICATED, MASTERS, UNAUTHENTICATED, User

KEY = SigningKey(ec.generate_private_key(ec.SECP256R1()))
TOKENS = parse_tokens('secret-1,jane,7,"ops,dev"\nsecret-2,joe,8\n')
CLUSTER = Cluster(service_account("bot"))
CLOCK = StoppedClock()
ACCOUNTS = AccountTokens(KEY, CLUSTER, CLOCK, ids())


def authenticator(clock: StoppedClock = CLOCK) -> Authenticator:
    return Authenticator(tokens=TOKENS, accounts=ACCOUNTS, clock=clock)


def outcome(asked: Request) -> User | int:
    try:
        return authenticator().authenticate(asked)
    except ApiError as error:
        return error.code


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer secret-1", User("jane", ("ops", "dev", AUTHENTICATED), uid="7")),
        ("bearer  secret-2 ", User("joe", (AUTHENTICATED,), uid="8")),
        ("Bearer secret-3", 401),
        ("Bearer secret", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("", 401),
        ("secret-1", 401),
        ("Basic c2VjcmV0LTE=", 401),
        ("Bearer \ud800", 401),
        ("Bearer a.b.c", 401),
        ("Bearer secret-1\nBearer secret-2", 401),
    ],
)
def test_a_bearer_token_stands_for_its_user_and_anything_else_is_refused(
    header: str, expected: User | int
) -> None:
    assert outcome(request(authorization=header)) == expected


@given(st.text())
def test_a_garbled_authorization_is_401_and_never_anything_else(header: str) -> None:
    assert outcome(request(authorization=header)) == 401


def test_a_service_account_token_is_a_bearer_token() -> None:
    token = ACCOUNTS.issue_token(service_account("bot"))
    found = outcome(request(authorization=f"Bearer {token}"))
    assert isinstance(found, User)
    assert found.name == "system:serviceaccount:default:bot"


@pytest.mark.parametrize("path", ["/healthz", "/healthz/ping", "/livez", "/readyz", "/readyz/x", "/version"])
def test_nobody_may_see_health_and_version(path: str) -> None:
    assert outcome(request(path)) == NOBODY
    assert NOBODY.groups == (UNAUTHENTICATED,)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/apis", "/metrics", "/openapi/v3", "/api/v1/pods", "/healthzz", "//healthz", ""]
)
def test_nobody_may_see_anything_else(path: str) -> None:
    assert outcome(request(path)) == 401


def test_bad_credentials_are_refused_even_where_none_are_needed() -> None:
    assert outcome(request("/healthz", authorization="Bearer wrong")) == 401
    assert outcome(request("/healthz", certificate=b"garbage")) == 401


def test_tokens_can_be_replaced_while_the_server_runs() -> None:
    running = authenticator()
    asked = request(authorization="Bearer secret-1")
    assert running.authenticate(asked).name == "jane"
    running.replace_tokens(parse_tokens("fresh,kim,9"))
    with pytest.raises(ApiError, match="Unauthorized"):
        running.authenticate(asked)
    assert running.authenticate(request(authorization="Bearer fresh")).name == "kim"


def test_a_token_is_reviewed_with_its_audiences() -> None:
    running = authenticator()
    jane = User("jane", ("ops", "dev", AUTHENTICATED), uid="7")
    assert running.check_token("secret-1") == Accepted(jane, ACCOUNTS.audiences)
    assert isinstance(running.check_token("secret-1", ["vault"]), Refused)
    assert running.check_token("wrong") == Refused("invalid bearer token")


# Certificates.


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def test_a_certificate_stands_for_its_common_name_in_its_organizations(tmp_path: Path) -> None:
    clock = StoppedClock()
    pki = ensure_pki(tmp_path, clock=clock)
    certificate, _ = issue_client(pki, User("jane", ("ops", "dev")), clock=clock)
    running = authenticator(clock)
    asked = request(certificate=der(certificate), authorization="Bearer wrong")
    for _ in range(2):
        found = running.authenticate(asked)
        assert (found.name, found.groups) == ("jane", ("ops", "dev", AUTHENTICATED))
        assert found.extra[0][1][0].startswith("X509SHA256=")


def test_a_certificate_that_expires_during_a_connection_ends_with_it(tmp_path: Path) -> None:
    clock = StoppedClock()
    certificate, _ = issue_client(ensure_pki(tmp_path, clock=clock), user("jane"), clock=clock, days=1)
    running, asked = authenticator(clock), request(certificate=der(certificate))
    assert running.authenticate(asked).name == "jane"
    clock.pass_s(24 * 3600 + 1)
    with pytest.raises(ApiError, match="Unauthorized"):
        running.authenticate(asked)


def test_a_certificate_without_a_name_leaves_the_word_to_a_token(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path, clock=CLOCK)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(pki.ca.subject)
        .public_key(pki.ca_key.public_key())
        .serial_number(1)
        .not_valid_before(pki.ca.not_valid_before_utc)
        .not_valid_after(pki.ca.not_valid_after_utc)
    )
    nameless = builder.sign(pki.ca_key, SHA256()).public_bytes(Encoding.DER)
    assert outcome(request(certificate=nameless)) == 401
    found = outcome(request(certificate=nameless, authorization="Bearer secret-1"))
    assert isinstance(found, User)
    assert found.name == "jane"


@given(st.binary(min_size=1))
def test_a_garbled_certificate_is_401(raw: bytes) -> None:
    assert outcome(request(certificate=raw)) == 401


def test_the_memory_of_certificates_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.api.auth.authenticate.CERTIFICATES_MAX", 3)
    pki, running = ensure_pki(tmp_path, clock=CLOCK), authenticator()
    for n in range(10):
        certificate, _ = issue_client(pki, user(f"u{n}"), clock=CLOCK)
        assert running.authenticate(request(certificate=der(certificate))).name == f"u{n}"
    assert len(running._certificates) == 3


# The token file.


def test_comments_and_empty_lines_of_the_token_file_are_skipped() -> None:
    assert parse_tokens("# people\n\na,jane,1\n") == {digest("a"): User("jane", (AUTHENTICATED,), uid="1")}
    assert parse_tokens("") == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,jane", 1),
        ("a,jane,1\n,joe,2", 2),
        ("a,,1", 1),
        ("a,jane,1\n\na,joe,2", 3),
        ('a,jane,1,"open', 1),
        ("just words", 1),
    ],
)
def test_a_bad_token_file_is_an_error_that_names_the_line_and_no_token(text: str, line: int) -> None:
    with pytest.raises(BadTokens, match=rf"^DIR/tokens, line {line}: ") as bad:
        parse_tokens(text, source="DIR/tokens")
    assert "\n" not in str(bad.value)


# Impersonation.

ROOT = user("root", MASTERS)


def acted(who: User, headers: dict[str, str], cluster: Cluster | None = None) -> User | tuple[int, str]:
    asked = Request(method="GET", path="/api", query={}, headers=headers)
    try:
        return authenticator().impersonated(asked, who, Authorizer(cluster or Cluster()))
    except ApiError as error:
        return error.code, error.message


def test_without_the_headers_everybody_is_who_they_are() -> None:
    assert acted(user("jane"), {"accept": "x", "user-agent": "y"}) == user("jane")


def test_a_user_acts_as_another_with_groups_uid_and_extra() -> None:
    headers = {
        "impersonate-user": "jane",
        "impersonate-group": "ops\ndev,eu",
        "impersonate-uid": "7",
        "impersonate-extra-acme.com%2fproject": "a\nb",
    }
    assert acted(ROOT, headers) == User(
        "jane",
        ("ops", "dev,eu", AUTHENTICATED),
        uid="7",
        extra=(("acme.com/project", ("a", "b")),),
        impersonator="root",
    )


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("jane", (AUTHENTICATED,)),
        ("system:anonymous", (UNAUTHENTICATED,)),
        (
            "system:serviceaccount:ns:bot",
            ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED),
        ),
        ("system:serviceaccount:", (AUTHENTICATED,)),
    ],
)
def test_some_groups_come_with_the_user(name: str, groups: tuple[str, ...]) -> None:
    assert acted(ROOT, {"impersonate-user": name}) == User(name, groups, impersonator="root")


def may(*rules: tuple[str, str, str]) -> Cluster:
    granted = [rule("impersonate", resource, groups=[group], names=name) for group, resource, name in rules]
    return Cluster(cluster_role("imp", *granted), cluster_binding("b", "imp", to_user("jane")))


def test_each_part_of_an_impersonation_must_be_allowed() -> None:
    jane, cluster = user("jane"), may(("", "users", "joe"), ("", "groups", "dev"))
    joe = {"impersonate-user": "joe"}
    assert acted(jane, {**joe, "impersonate-group": "dev"}, cluster) == User(
        "joe", ("dev", AUTHENTICATED), impersonator="jane"
    )
    assert acted(jane, {"impersonate-user": "root"}, cluster) == (
        403,
        'users "root" is forbidden: User "jane" cannot impersonate resource "users" in API group "" '
        "at the cluster scope",
    )
    assert acted(jane, {**joe, "impersonate-group": "dev\nsystem:masters"}, cluster) == (
        403,
        'groups "system:masters" is forbidden: User "jane" cannot impersonate resource "groups" '
        'in API group "" at the cluster scope',
    )
    assert acted(jane, {**joe, "impersonate-uid": "1"}, cluster) == (
        403,
        'uids.authentication.k8s.io "1" is forbidden: User "jane" cannot impersonate resource "uids" '
        'in API group "authentication.k8s.io" at the cluster scope',
    )
    assert acted(jane, {**joe, "impersonate-extra-scopes": "x"}, cluster) == (
        403,
        'userextras.authentication.k8s.io "x" is forbidden: User "jane" cannot impersonate resource '
        '"userextras/scopes" in API group "authentication.k8s.io" at the cluster scope',
    )


def test_a_service_account_is_impersonated_by_permission_in_its_namespace() -> None:
    cluster = Cluster(
        role("imp", rule("impersonate", "serviceaccounts"), namespace="ns"),
        binding("b", "imp", to_user("jane"), namespace="ns"),
    )
    assert isinstance(
        acted(user("jane"), {"impersonate-user": "system:serviceaccount:ns:bot"}, cluster), User
    )
    refused = acted(user("jane"), {"impersonate-user": "system:serviceaccount:kube-system:bot"}, cluster)
    assert isinstance(refused, tuple)
    assert refused[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"impersonate-group": "dev"},
        {"impersonate-uid": "1"},
        {"impersonate-extra-x": "1"},
        {"impersonate-user": ""},
        {"impersonate-user": "a\nb"},
        {"impersonate-nonsense": "x"},
    ],
)
def test_an_impersonation_of_no_one_user_is_a_bad_request(headers: dict[str, str]) -> None:
    refused = acted(ROOT, headers)
    assert isinstance(refused, tuple)
    assert refused[0] == 400


def test_nobody_cannot_impersonate() -> None:
    refused = acted(NOBODY, {"impersonate-user": "root"})
    assert isinstance(refused, tuple)
    assert refused[0] == 403


@given(st.dictionaries(st.text().map(lambda name: f"impersonate-{name}"), st.text(), max_size=4))
def test_garbled_impersonation_is_refused_and_nothing_worse(headers: dict[str, str]) -> None:
    found = acted(user("jane"), headers)
    assert found == user("jane") or (isinstance(found, tuple) and found[0] in {400, 403})
