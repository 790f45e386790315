"""Another program says who we are: asked once, kept until it expires, asked again when it is refused."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bench.tiny_server import make_certificate

from fathom.client.credentials import CredentialPlugin, NoCredentials, PluginCredentials

pytestmark = pytest.mark.live

V1 = "client.authentication.k8s.io/v1"
EPOCH_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z

# Counts how often it ran, keeps what it was told, and says what it was given to say.
PROGRAM = """
import os, sys
here = sys.argv[1]
with open(here + "/ran", "a") as f: f.write("x")
with open(here + "/told", "w") as f: f.write(os.environ["KUBERNETES_EXEC_INFO"])
print(open(here + "/say").read())
sys.exit(int(os.environ.get("CODE", "0")))
"""


class Hand:
    """A clock that a test moves."""

    now = EPOCH_NS

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now


class Login:
    def __init__(self, here: Path, **options: Any) -> None:
        self.here = here
        (here / "program.py").write_text(PROGRAM)
        self.clock = Hand()
        self.tls = ssl.create_default_context()
        plugin = CredentialPlugin(
            command=sys.executable,
            args=(str(here / "program.py"), str(here)),
            api_version=V1,
            **options,
        )
        self.credentials = PluginCredentials(plugin, self.tls, self.clock, {"PATH": ""})

    def say(self, **status: Any) -> None:
        (self.here / "say").write_text(
            json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
        )

    @property
    def ran(self) -> int:
        ran = self.here / "ran"
        return len(ran.read_text()) if ran.exists() else 0

    async def token(self) -> str:
        await self.credentials.renew()
        return self.credentials()[0][1]


def test_it_is_asked_once_for_many_requests_at_a_time(tmp_path: Path) -> None:
    login = Login(tmp_path, cluster={"server": "https://h"})
    login.say(token="t1")

    async def story() -> None:
        assert set(await asyncio.gather(*(login.token() for _ in range(20)))) == {"Bearer t1"}
        assert login.ran == 1

    asyncio.run(story())
    assert json.loads((tmp_path / "told").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://h"}},
    }


def test_it_is_kept_until_it_expires(tmp_path: Path) -> None:
    login = Login(tmp_path)
    login.say(token="t1", expirationTimestamp="2026-01-01T00:10:00Z")

    async def story() -> None:
        assert await login.token() == "Bearer t1"
        login.say(token="t2")
        login.clock.now = EPOCH_NS + 580 * 10**9
        assert (await login.token(), login.ran) == ("Bearer t1", 1)
        login.clock.now = EPOCH_NS + 590 * 10**9
        assert (await login.token(), login.ran) == ("Bearer t2", 2)
        login.clock.now *= 2  # Without a time of expiry it is good until it is refused.
        assert (await login.token(), login.ran) == ("Bearer t2", 2)

    asyncio.run(story())


def test_what_the_server_refused_is_asked_for_again_once(tmp_path: Path) -> None:
    login = Login(tmp_path)
    login.say(token="t1")

    async def story() -> None:
        await login.token()
        used = login.credentials()
        login.say(token="t2")
        login.credentials.refused(used)
        assert await login.token() == "Bearer t2"
        login.credentials.refused(used)  # A slow answer to the first one.
        assert (await login.token(), login.ran) == ("Bearer t2", 2)

    asyncio.run(story())


def test_it_may_give_a_certificate_instead(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    login = Login(tmp_path)
    login.say(clientCertificateData=certificate.read_text(), clientKeyData=key.read_text())

    async def story() -> None:
        await login.credentials.renew()
        assert login.credentials() == ()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("", "did not return JSON"),
        ("[]", "did not return an ExecCredential"),
        (
            '{"kind":"ExecCredential","apiVersion":"x"}',
            "returned apiVersion x, the kubeconfig requires client.auth",
        ),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1}), "returned no credentials"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {}}), "neither a token nor"),
        (
            json.dumps(
                {
                    "kind": "ExecCredential",
                    "apiVersion": V1,
                    "status": {"token": "t", "expirationTimestamp": "soon"},
                }
            ),
            "invalid expirationTimestamp: 'soon'",
        ),
        (
            json.dumps(
                {
                    "kind": "ExecCredential",
                    "apiVersion": V1,
                    "status": {"clientCertificateData": "x", "clientKeyData": "y"},
                }
            ),
            "invalid certificate",
        ),
    ],
)
def test_a_useless_answer_is_one_line_that_names_the_program(
    tmp_path: Path, said: str, complaint: str
) -> None:
    login = Login(tmp_path)
    (tmp_path / "say").write_text(said)
    with pytest.raises(NoCredentials, match=complaint) as caught:
        asyncio.run(login.credentials.renew())
    assert str(caught.value).startswith(sys.executable)
    assert "\n" not in str(caught.value)


def test_a_program_that_fails_or_is_missing_is_said_with_the_way_out(tmp_path: Path) -> None:
    login = Login(tmp_path, env=(("CODE", "3"),))
    login.say(token="t")
    with pytest.raises(NoCredentials, match="failed with exit code 3"):
        asyncio.run(login.credentials.renew())
    missing = PluginCredentials(
        CredentialPlugin(command="no-such-login", api_version=V1, hint="brew install it"),
        ssl.create_default_context(),
        Hand(),
        {"PATH": str(tmp_path)},
    )
    with pytest.raises(NoCredentials, match=r"cannot run no-such-login: No such file.*; brew install it"):
        asyncio.run(missing.renew())
