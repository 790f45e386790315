"""Which server and as whom: what a kubeconfig may say, and one line for what it may not."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.bench.tiny_server import kubeconfig, make_certificate

from fathom.bench.errors import BadTarget
from fathom.bench.kubeconfig import read_target


def write(directory: Path, config: Any) -> Path:
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    certificate, _ = make_certificate(tmp_path)
    return kubeconfig(6443, authority=certificate.read_bytes())


def test_server_authority_and_token_come_from_the_current_context(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    config["clusters"].insert(0, {"name": "other", "cluster": {"server": "https://elsewhere"}})
    target = read_target(write(tmp_path, config))
    assert (target.host, target.port, target.prefix, target.server_name, target.token) == (
        "127.0.0.1",
        6443,
        "",
        "127.0.0.1",
        "let-me-in",
    )
    assert target.tls.verify_mode is ssl.CERT_REQUIRED
    assert "tiny" in str(target.tls.get_ca_certs())


def test_paths_count_from_the_file_and_a_proxy_prefix_is_kept(tmp_path: Path, config: dict[str, Any]) -> None:
    config["clusters"][0]["cluster"] = {
        "server": "https://proxy.example/clusters/a/",
        "certificate-authority": "tls.crt",
        "tls-server-name": "inside",
    }
    (tmp_path / "secret").write_text("from a file\n")
    config["users"][0]["user"] = {
        "tokenFile": "secret",
        "client-certificate": "tls.crt",
        "client-key": "tls.key",
    }
    target = read_target(write(tmp_path, config))
    assert (target.host, target.port, target.prefix) == ("proxy.example", 443, "/clusters/a")
    assert (target.server_name, target.token) == ("inside", "from a file")


def test_a_client_certificate_may_be_given_inline_and_leaves_no_file(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    config["users"][0]["user"] = {
        f"client-{what}-data": base64.b64encode((tmp_path / file).read_bytes()).decode()
        for what, file in (("certificate", "tls.crt"), ("key", "tls.key"))
    }
    assert read_target(write(tmp_path, config)).token == ""
    assert list(scratch.iterdir()) == []


def test_verification_is_skipped_only_when_the_file_says_so(tmp_path: Path, config: dict[str, Any]) -> None:
    config["clusters"][0]["cluster"] = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    assert read_target(write(tmp_path, config)).tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"current-context": ""}, "has no current-context"),
        ({"current-context": "gone"}, "contexts has no entry named 'gone'"),
        ({"clusters": None}, "clusters has no entry named 'here'"),
        ({"clusters": [{"name": "here", "cluster": {}}]}, "has no server"),
        ({"clusters": [{"name": "here", "cluster": {"server": "http://x"}}]}, "is not an https:// address"),
        (
            {"clusters": [{"name": "here", "cluster": {"server": "https://h:99999"}}]},
            "not an https:// address",
        ),
        ({"users": [{"name": "me", "user": {"exec": {"command": "x"}}}]}, "'exec' is not supported here"),
        ({"users": [{"name": "me", "user": {"tokenFile": "gone"}}]}, "No such file"),
        ({"users": [{"name": "me", "user": {"client-certificate-data": "%%"}}]}, "is not base64"),
        ({"users": [{"name": "me", "user": {"client-certificate-data": "YWJj"}}]}, "cannot be used"),
        ({"kind": "Pod"}, "is not a kubeconfig"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_one_line(
    tmp_path: Path, config: dict[str, Any], change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadTarget, match=complaint) as caught:
        read_target(write(tmp_path, {**config, **change}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "- just\n- a list", "\x00", ""])
def test_a_file_that_is_not_a_kubeconfig_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(BadTarget) as caught:
        read_target(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadTarget, match=r"cannot read .*gone: No such file"):
        read_target(tmp_path / "gone")
