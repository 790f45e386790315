"""Who calls a tool: the API server with the caller's own credentials, and the program that they use."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from fathom.cli.api_server import found_server
from fathom.cli.places import chosen_namespace, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.server_address import ServerAddress
from fathom.client.servers import find_server_for
from fathom.seams.outside import live

NAME_CHARS_MAX, VERSION_CHARS_MAX = 64, 24
UNNAMED = "an unnamed assistant via fathom mcp"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ._+()-]+")


class Caller(msgspec.Struct, frozen=True):
    server: ServerAddress  # With the credentials of who asks, and no others.
    namespace: str  # Where a question is asked that names none.
    through: str  # 'assistant NAME VERSION via fathom mcp', for the record of a proposal.


Callers = Callable[[str, str], Caller]  # (the caller's token, '' over stdio; through) -> the caller.


def callers_of(kubeconfig: Path | None, namespace: str) -> Callers:
    """Reads the kubeconfig for every call: one that was renewed meanwhile is used, and calls share"
    " nothing."""

    def caller(token: str, through: str) -> Caller:
        """Raises Problem."""
        file = found_kubeconfig(kubeconfig)
        server = server_for(token, file) if token else found_server(file)
        return Caller(server, chosen_namespace(namespace, kubeconfig), through)

    return caller


def server_for(token: str, kubeconfig: Path | None) -> ServerAddress:
    """Raises Problem."""
    try:
        return find_server_for(token, kubeconfig, clock=live().clock, environ=os.environ)
    except BadKubeconfig as error:
        raise Problem(str(error)) from error


def assistant_text(name: str, version: str) -> str:
    """What a client says of itself is a claim of its own: only plain characters of it are kept, and not"
    " many."""
    shown = " ".join(
        part
        for part in (_plain(name)[:NAME_CHARS_MAX].strip(), _plain(version)[:VERSION_CHARS_MAX].strip())
        if part
    )
    return f"assistant {shown} via fathom mcp" if shown else UNNAMED


def _plain(text: str) -> str:
    return " ".join(_NOT_PLAIN.sub("?", text).split())
