"""Serves over stdin and stdout, for an assistant that starts `fathom mcp` itself. The credentials are those
of the kubeconfig of whoever started it. Only the protocol is written to stdout; logs go to stderr."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from mcp.server.stdio import stdio_server

from fathom.cli.problem import INTERRUPTED
from fathom.mcp.caller import Callers
from fathom.mcp.server import make_server
from fathom.terminal import say


def serve_stdio(callers: Callers, *, allow_proposals: bool) -> None:
    """Until stdin ends."""
    if sys.stdin.isatty():
        say("An assistant's program starts this and speaks with it on stdin; Ctrl-C ends it.", err=True)
    asyncio.run(_serve(callers, allow_proposals=allow_proposals))


async def _serve(callers: Callers, *, allow_proposals: bool) -> None:
    # A thread waits for the next line of stdin, and cannot be woken: Ctrl-C ends the process as it is.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, os._exit, INTERRUPTED)
    server = make_server(callers, allow_proposals=allow_proposals)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
