"""Identities for nodes, given out by whoever holds the cluster's authority: agents beside their server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fathom.api.auth.certificates import ensure_pki, kubeconfig, write_private
from fathom.client.kubeconfig import read_context
from fathom.model.user import User
from fathom.seams.outside import Clock

NODE_USER, NODES = "system:node:", "system:nodes"
FILE = "agents"


def write_node_credentials(data: Path, nodes: Sequence[str], *, clock: Clock) -> Path:
    """DIR/credentials/agents: a kubeconfig with a context for each node, named as the node is. DIR is a
    server's data directory, with its authority and its kubeconfig."""
    url = read_context([data / "kubeconfig"]).url.geturl()
    pki = ensure_pki(data, clock=clock)
    whole: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "preferences": {}}
    parts = ("clusters", "users", "contexts")
    whole |= {part: [] for part in parts}
    for node in nodes:
        user = User(f"{NODE_USER}{node}", (NODES,))
        one = yaml.safe_load(kubeconfig(pki, url, user, clock=clock, context=node))
        for part in parts:
            whole[part] += one[part]
        whole.setdefault("current-context", node)
    folder = data / "credentials"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / FILE
    write_private(file, yaml.safe_dump(whole, sort_keys=False).encode())
    return file
