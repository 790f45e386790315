"""People who steer a running cluster: their kubeconfigs, and `fathom runbook` as another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.cluster.living import Cluster

Obj = dict[str, Any]

DEFAULT = "/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLEAGUE = "system:serviceaccount:default:colleague"


def make_colleague(cluster: Cluster, directory: Path, *, role: str = "admin") -> Path:
    """The kubeconfig of somebody who has the role in the namespace default and reads metrics; with the role
    cluster-admin, everywhere."""
    cluster.ask("POST", f"/api/v1{DEFAULT}/serviceaccounts", {"metadata": {"name": "colleague"}})
    everywhere = role == "cluster-admin"
    bindings = f"{RBAC}/clusterrolebindings" if everywhere else f"{RBAC}{DEFAULT}/rolebindings"
    cluster.ask("POST", bindings, _binding("colleague", role))
    if not everywhere:
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


def command(kubeconfig: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "fathom.cli", "runbook", *words, "--kubeconfig", str(kubeconfig)]


def ran(kubeconfig: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        command(kubeconfig, *words), capture_output=True, text=True, check=False, timeout=250
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr
