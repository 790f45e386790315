"""Write kubeconfigs for nodes, signed with the cluster's CA key: for agents beside their API server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fathom.api.auth.certificates import ensure_pki, kubeconfig
from fathom.client.kubeconfig import read_context
from fathom.model.accounts import node_user
from fathom.private_files import write_private
from fathom.seams.outside import Clock

FOLDER = "agents"


def write_node_credentials(data: Path, nodes: Sequence[str], *, clock: Clock) -> Path:
    """Write DIR/credentials/agents: a kubeconfig for each node, named like the node. DIR is an API server's
    data directory, with its CA and its kubeconfig."""
    url = read_context([data / "kubeconfig"]).url.geturl()
    pki = ensure_pki(data, None, clock=clock)
    folder = data / "credentials" / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for node in nodes:
        file = kubeconfig(pki, url, node_user(node), clock=clock, context=node)
        write_private(folder / node, file.encode())
    return folder
