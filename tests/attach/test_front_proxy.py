"""Headers that name a user are believed from Kubernetes' front proxy, and from nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fathom.api.auth.certificates import Pki, ensure_pki, issue_client
from fathom.api.extension_authentication import config_map
from fathom.api.request import Request
from fathom.attach.front_proxy import FrontProxy, NoFrontProxy, front_proxy_of
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.seams.outside import SystemClock

NOW_NS = SystemClock().now_ns()
YEAR_NS = 366 * 24 * 3600 * 1_000_000_000
JANE = {"x-remote-user": "jane", "x-remote-group": "developers\nsystem:authenticated"}


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pki, Pki]:
    """Of users, and of the front proxy."""
    folder = tmp_path_factory.mktemp("pki")
    users, proxies = (ensure_pki(folder / name, None, clock=SystemClock()) for name in ("users", "proxies"))
    return users, proxies


def named(pki: Pki, name: str) -> bytes:
    pem, _ = issue_client(pki, User(name), clock=SystemClock())
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def configured(authorities: tuple[Pki, Pki], **changes: object) -> Obj:
    users, proxies = authorities
    obj = config_map(users.ca_pem.decode(), proxies.ca_pem.decode())
    changed = {name.replace("_", "-"): value for name, value in changes.items()}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in changed.items()}
    return {**obj, "data": {**obj["data"], **texts}}


def user_of(proxy: FrontProxy, certificate: bytes, headers: dict[str, str], *, now_ns: int = NOW_NS) -> User:
    request = Request("GET", "/apis", {}, headers, client_certificate=certificate)
    return proxy.user_of(request, now_ns=now_ns)


def code_of(proxy: FrontProxy, certificate: bytes, headers: dict[str, str], **options: Any) -> int:
    with pytest.raises(ApiError) as caught:
        user_of(proxy, certificate, headers, **options)
    return caught.value.code


def test_the_proxy_names_the_user_with_groups_uid_and_extra(authorities: tuple[Pki, Pki]) -> None:
    proxy = front_proxy_of(configured(authorities))
    headers = {
        "x-remote-user": "system:serviceaccount:team:bot", "x-remote-group": "a,b\nsystem:serviceaccounts",
        "x-remote-uid": "u-1", "x-remote-extra-example.com%2fscopes": "read\nwrite", "accept": "*/*",
    }  # fmt: skip
    assert user_of(proxy, named(authorities[1], "front-proxy-client"), headers) == User(
        name="system:serviceaccount:team:bot",
        groups=("a,b", "system:serviceaccounts", "system:authenticated"),
        uid="u-1",
        extra=(("example.com/scopes", ("read", "write")),),
    )


def test_names_are_utf_8(authorities: tuple[Pki, Pki]) -> None:
    proxy, certificate = front_proxy_of(configured(authorities)), named(authorities[1], "front-proxy-client")
    sent = "jürgen".encode().decode("latin-1")  # As the transport reads it.
    assert user_of(proxy, certificate, {"x-remote-user": sent}).name == "jürgen"
    assert code_of(proxy, certificate, {"x-remote-user": "j\xfcrgen"}) == 401


def test_nobody_without_the_right_certificate_is_believed(authorities: tuple[Pki, Pki]) -> None:
    proxy, certificate = front_proxy_of(configured(authorities)), named(authorities[1], "front-proxy-client")
    assert user_of(proxy, certificate, JANE).name == "jane"
    assert code_of(proxy, b"", JANE) == 401
    assert code_of(proxy, b"no certificate", JANE) == 401
    assert code_of(proxy, named(authorities[1], "front-proxy-client2"), JANE) == 401
    assert code_of(proxy, named(authorities[1], "jane"), JANE) == 401
    assert code_of(proxy, certificate, JANE, now_ns=NOW_NS + YEAR_NS) == 401  # It has expired.


def test_a_user_must_be_named_once(authorities: tuple[Pki, Pki]) -> None:
    proxy, certificate = front_proxy_of(configured(authorities)), named(authorities[1], "front-proxy-client")
    assert code_of(proxy, certificate, {}) == 401
    assert code_of(proxy, certificate, {"x-remote-user": " "}) == 401
    assert code_of(proxy, certificate, {"x-remote-group": "system:masters"}) == 401
    assert code_of(proxy, certificate, {"x-remote-user": "jane\nadmin"}) == 401
    assert code_of(proxy, certificate, {"x_remote_user": "admin"}) == 401


@pytest.mark.parametrize("header", ["impersonate-user", "impersonate-group", "impersonate-extra-a"])
def test_impersonation_is_refused(authorities: tuple[Pki, Pki], header: str) -> None:
    proxy, certificate = front_proxy_of(configured(authorities)), named(authorities[1], "front-proxy-client")
    assert code_of(proxy, certificate, {**JANE, header: "admin"}) == 403


def test_the_cluster_may_choose_other_headers_and_names(authorities: tuple[Pki, Pki]) -> None:
    changed = configured(
        authorities, requestheader_username_headers=["X-User", "X-Other"], requestheader_allowed_names=["me"]
    )
    proxy, certificate = front_proxy_of(changed), named(authorities[1], "me")
    assert user_of(proxy, certificate, {"x-other": "ann", "x-remote-user": "admin"}).name == "ann"
    assert code_of(proxy, certificate, JANE) == 401
    assert code_of(proxy, named(authorities[1], "front-proxy-client"), {"x-user": "ann"}) == 401


def test_without_allowed_names_every_certificate_of_a_ca_of_its_own_will_do(
    authorities: tuple[Pki, Pki],
) -> None:
    proxy = front_proxy_of(configured(authorities, requestheader_allowed_names=[]))
    assert user_of(proxy, named(authorities[1], "anything"), JANE).name == "jane"


def test_a_configuration_that_lets_users_speak_for_others_is_refused(authorities: tuple[Pki, Pki]) -> None:
    users = authorities[0].ca_pem.decode()
    shared = configured(authorities, requestheader_client_ca_file=users, requestheader_allowed_names=[])
    with pytest.raises(NoFrontProxy, match="lets every user of the cluster's CA speak for every other"):
        front_proxy_of(shared)
    named_too = configured(authorities, requestheader_client_ca_file=users)
    assert front_proxy_of(named_too).allowed_names == ("front-proxy-client",)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"requestheader_client_ca_file": ""}, "no requestheader-client-ca-file"),
        ({"requestheader_allowed_names": "front-proxy-client"}, "requestheader-allowed-names is no list"),
        ({"requestheader_allowed_names": [1]}, "requestheader-allowed-names is no list"),
        ({"requestheader_username_headers": []}, "names no requestheader-username-headers"),
        ({"requestheader_allowed_names": [], "client_ca_file": "x"}, "cannot be read"),
    ],
)
def test_a_configuration_that_cannot_be_read_believes_nobody(
    authorities: tuple[Pki, Pki], changes: dict[str, object], why: str
) -> None:
    with pytest.raises(NoFrontProxy, match=why):
        front_proxy_of(configured(authorities, **changes))


def test_a_server_without_an_aggregation_layer_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoFrontProxy, match="there is no ConfigMap kube-system/extension-apiserver"):
        front_proxy_of(None)
