"""What a program is given: an API server with a data directory of its own, credentials, a kubeconfig."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import ssl
from base64 import b64encode
from pathlib import Path

from fathom.api.auth.certificates import ensure_pki
from fathom.api.auth.tls import server_context
from fathom.chaos.person import Person
from fathom.chaos.schedule import OPERATOR
from fathom.chaos.server import HOST, ApiServer
from fathom.private_files import write_private
from fathom.seams.outside import Clock

PERSON = "fathom-chaos"
ALL_RIGHTS = "system:masters"  # As envtest gives them: roles are not what is tested here.


class Authority:
    """The certificate authority of all runs, and the proxy's certificate."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        pki = ensure_pki(directory, (HOST,), clock=clock)
        self.files = [directory / "pki" / name for name in ("ca.crt", "ca.key")]
        self.pem = pki.ca_pem.decode()
        self.server = server_context(pki)

    @property
    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.pem)


class Cluster:
    def __init__(self, directory: Path, authority: Authority) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.authority = authority
        self._tokens = {name: secrets.token_urlsafe(24) for name in (OPERATOR, PERSON)}
        self._prepare()
        self.server = ApiServer(self.data)
        self.person = Person(self.server, authority.client, self._tokens[PERSON])

    def _prepare(self) -> None:
        """Of the authority only the CA itself: a data directory with more has lost its store."""
        pki = self.data / "pki"
        pki.mkdir(mode=0o700, parents=True)
        for file in self.authority.files:
            shutil.copy(file, pki)
        lines = [f'{token},{name},{name},"{ALL_RIGHTS}"' for name, token in self._tokens.items()]
        write_private(self.data / "tokens.csv", "\n".join(lines).encode())

    async def start(self) -> None:
        await self.server.start()

    async def stop(self) -> None:
        await self.person.close()
        await self.server.stop()

    def variables(self, url: str) -> dict[str, str]:
        """Of the program's environment."""
        config = self.directory / "kubeconfig"
        write_private(config, kubeconfig(url, self.authority.pem, self._tokens[OPERATOR]).encode())
        direct = ",".join(filter(None, (os.environ.get("NO_PROXY", ""), HOST)))
        return {
            "KUBECONFIG": str(config),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
            "NO_PROXY": direct,
            "no_proxy": direct,
            "PYTHONUNBUFFERED": "1",  # What it printed before it was killed is in the file.
        }

    @staticmethod
    def words_for(user: str) -> str:
        return "you" if user == PERSON else user


def kubeconfig(url: str, authority_pem: str, token: str) -> str:
    """With a token: TLS ends at the proxy, and a client certificate with it. As JSON, which is YAML, for
    programs that read no YAML."""
    name = "fathom-chaos"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": b64encode(authority_pem.encode()).decode(),
                },
            }
        ],
        "users": [{"name": OPERATOR, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": OPERATOR, "namespace": "default"}}],
        "current-context": name,
        "preferences": {},
    }
    return json.dumps(config, indent=2)
