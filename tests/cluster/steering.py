"""People who steer a running cluster: their kubeconfigs, and `fathom runbook` as another process."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from tests.cluster.living import Cluster, until

Obj = dict[str, Any]

DEFAULT = "/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLEAGUE = "system:serviceaccount:default:colleague"


def make_colleague(cluster: Cluster, directory: Path) -> Path:
    """The kubeconfig of a service account that administers the namespace default and reads metrics."""
    cluster.ask("POST", f"/api/v1{DEFAULT}/serviceaccounts", {"metadata": {"name": "colleague"}})
    cluster.ask("POST", f"{RBAC}{DEFAULT}/rolebindings", _binding("colleague", "admin"))
    cluster.ask("POST", f"{RBAC}/clusterrolebindings", _binding("colleague", "system:monitoring"))
    token = cluster.ask("POST", f"/api/v1{DEFAULT}/serviceaccounts/colleague/token", {"spec": {}})
    config = yaml.safe_load((cluster.data / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    file = directory / "colleague"
    file.write_text(json.dumps(config))
    return file


def _binding(name: str, role: str) -> Obj:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }


class Person:
    """Somebody with a token of the cluster's token file, and with the permissions that bindings give."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name, self._token, self._url = name, secrets.token_hex(16), cluster.url
        self._tls = ssl.create_default_context(cafile=str(cluster.data / "pki" / "ca.crt"))
        self._config = yaml.safe_load((cluster.data / "kubeconfig").read_text())
        file = cluster.data / "tokens.csv"
        with file.open("a") as lines:
            lines.write(f"{self._token},{name},{name}\n")
        file.chmod(0o600)
        until(lambda: self.ask("GET", "/api/v1/nodes")[0] != http.client.UNAUTHORIZED, cluster.told)

    def ask(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> tuple[int, Obj]:
        """The code and the object of the answer."""
        connection = http.client.HTTPSConnection(urlsplit(self._url).netloc, context=self._tls, timeout=20)
        headers = {"content-type": media, "authorization": f"Bearer {self._token}"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def kubeconfig(self, directory: Path) -> Path:
        self._config["users"][0]["user"] = {"token": self._token}
        file = directory / self.name
        file.write_text(json.dumps(self._config))
        return file


def command(kubeconfig: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "fathom.cli", "runbook", *words, "--kubeconfig", str(kubeconfig)]


def ran(kubeconfig: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        command(kubeconfig, *words), capture_output=True, text=True, check=False, timeout=250
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr
