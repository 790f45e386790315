"""What a kubeconfig may say beyond one server and one token, and where it is looked for."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.bench.tiny_server import make_certificate

from fathom.api.auth.certificates import ensure_pki
from fathom.client.credentials import PluginCredentials
from fathom.client.kubeconfig import BadKubeconfig, read_context, tls_of
from fathom.client.servers import find_files, find_server, in_cluster, server_of
from fathom.seams.outside import SystemClock

CLOCK = SystemClock()


def config(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "me", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/prefix/"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        **changes,
    }


def user(**fields: Any) -> dict[str, Any]:
    return config(users=[{"name": "me", "user": fields}])


def write(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def headers(path: Path) -> Any:
    return server_of(read_context([path]), clock=CLOCK, environ={}).credentials()


def test_the_server_has_its_address_and_who_we_are(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config())
    server = find_server(path, clock=CLOCK, environ={})
    assert (server.url, server.credentials(), server.renewing) == (
        "https://127.0.0.1:6443/prefix",
        (("authorization", "Bearer t"),),
        None,
    )
    assert read_context([path]).namespace == "team"


def test_several_files_are_one_and_the_first_is_heard(tmp_path: Path) -> None:
    first = write(tmp_path / "one" / "config", {"kind": "Config", "current-context": "there"})
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "secret").write_text("from two\n")
    second = write(
        tmp_path / "two" / "config",
        {
            **user(tokenFile="secret"),
            "contexts": [{"name": "there", "context": {"cluster": "c", "user": "me"}}],
        },
    )
    third = write(tmp_path / "three" / "config", user(token="never"))
    context = read_context([first, second, third])
    assert server_of(context, clock=CLOCK, environ={}).credentials() == (
        ("authorization", "Bearer from two"),
    )


def test_files_are_looked_for_where_kubectl_does(tmp_path: Path) -> None:
    home = write(tmp_path / ".kube" / "config", config())
    other = write(tmp_path / "other", config())
    environ = {"HOME": str(tmp_path)}
    assert find_files(None, environ) == [home]
    assert find_files(None, {**environ, "KUBECONFIG": f"{other}:{tmp_path}/gone:{home}"}) == [other, home]
    assert find_files(other, environ) == [other]
    assert find_files(None, {"HOME": str(tmp_path / "nobody")}) == []
    with pytest.raises(BadKubeconfig, match="no kubeconfig: start a cluster here with"):
        find_server(None, clock=CLOCK, environ={"HOME": str(tmp_path / "nobody")})


def test_inside_of_a_pod_the_service_account_is_used_and_its_token_followed(tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path)
    certificate.rename(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("first")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    server = in_cluster(environ, tmp_path)
    assert (server.url, server.credentials()) == (
        "https://[fd00::1]:6443",
        (("authorization", "Bearer first"),),
    )
    (tmp_path / "next").write_text("second")
    (tmp_path / "next").rename(tmp_path / "token")
    assert server.credentials() == (("authorization", "Bearer second"),)
    (tmp_path / "token").unlink()
    assert server.credentials() == (("authorization", "Bearer second"),)
    with pytest.raises(BadKubeconfig, match="cannot be used"):
        in_cluster(environ, tmp_path)


def test_basic_credentials_and_impersonation(tmp_path: Path) -> None:
    path = write(tmp_path / "config", user(username="jane", password="secret"))
    pair = base64.b64encode(b"jane:secret").decode()
    assert headers(path) == (("authorization", f"Basic {pair}"),)
    extra = {"scopes": ["a", "b"], "dept": ["x"]}
    path = write(
        tmp_path / "config",
        user(token="t", **{"as": "robot", "as-uid": "7", "as-groups": ["g1", "g2"], "as-user-extra": extra}),
    )
    assert headers(path) == (
        ("authorization", "Bearer t"),
        ("impersonate-user", "robot"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "g1"),
        ("impersonate-group", "g2"),
        ("impersonate-extra-dept", "x"),
        ("impersonate-extra-scopes", "a"),
        ("impersonate-extra-scopes", "b"),
    )


def test_a_plugin_is_read_and_its_path_counts_from_the_file(tmp_path: Path) -> None:
    exec_ = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["--for", "me"],
        "env": [{"name": "A", "value": "1"}],
        "provideClusterInfo": True,
    }
    path = write(tmp_path / "config", user(exec=exec_))
    server = server_of(read_context([path]), clock=CLOCK, environ={})
    assert isinstance(server.renewing, PluginCredentials)
    plugin = server.renewing._plugin
    assert (plugin.command, plugin.args, plugin.env, plugin.cluster) == (
        str(tmp_path / "bin/login"),
        ("--for", "me"),
        (("A", "1"),),
        {"server": "https://127.0.0.1:6443/prefix/"},
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (user(exec={"command": "x"}), "the user's exec has apiVersion None; supported are client.auth"),
        (user(exec={"apiVersion": "client.authentication.k8s.io/v1"}), "exec has no command"),
        (
            user(
                exec={
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "x",
                    "interactiveMode": "Always",
                }
            ),
            "requires a terminal",
        ),
        (user(**{"auth-provider": {"name": "gcp"}}), "auth-provider was removed from Kubernetes"),
        (user(tokenFile="gone"), "No such file"),
        (
            config(clusters=[{"name": "c", "cluster": {"server": "https://h", "proxy-url": "socks5://p"}}]),
            "proxy-url is not supported",
        ),
        (config(clusters=[{"name": "c", "cluster": {"server": "ftp://h"}}]), "not an https:// address"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path: Path, content: dict[str, Any], complaint: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(BadKubeconfig, match=complaint) as caught:
        find_server(path, clock=CLOCK, environ={})
    assert "\n" not in str(caught.value)


def test_where_an_authority_is_named_no_other_is_believed(tmp_path: Path) -> None:
    authority = ensure_pki(tmp_path, clock=SystemClock()).ca_file
    cluster = {"server": "https://h:1", "certificate-authority": str(authority)}
    path = write(tmp_path / "config", config(clusters=[{"name": "c", "cluster": cluster}]))
    believed = tls_of(read_context([path])).get_ca_certs()
    assert [one["subject"] for one in believed] == [((("commonName", "fathom-ca"),),)]
