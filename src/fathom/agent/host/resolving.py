"""A pod's own /etc/resolv.conf, if its spec needs one.

A cluster has no name server here, so every policy but `None` begins with the machine's file, as kubelet's
`Default`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from fathom.model.objects import Obj, lookup

HOST_RESOLV = Path("/etc/resolv.conf")
NAMESERVERS_MAX = 3  # The C library's limit; kubelet drops the rest.


class Resolving(msgspec.Struct, frozen=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()  # (name, value), '' for none.


def resolv_file(pod: Obj, host: Path) -> str | None:
    """The file's text; None: the machine's own is used."""
    config = lookup(pod, "spec", "dnsConfig") or {}
    alone = lookup(pod, "spec", "dnsPolicy") == "None"
    if not config and not alone:
        return None
    return _text(_merged(Resolving() if alone else _read(host), config))


def _read(host: Path) -> Resolving:
    try:
        lines = [line.split() for line in host.read_text().splitlines()]
    except OSError:
        return Resolving()
    servers = tuple(line[1] for line in lines if len(line) > 1 and line[0] == "nameserver")
    searches = [tuple(line[1:]) for line in lines if line and line[0] == "search"]
    options = [word.partition(":") for line in lines if line and line[0] == "options" for word in line[1:]]
    return Resolving(
        servers, searches[-1] if searches else (), tuple((option[0], option[2]) for option in options)
    )


def _merged(before: Resolving, config: Obj) -> Resolving:
    """The pod's entries follow the machine's; an option of the same name replaces it."""
    options = dict(before.options)
    for option in config.get("options") or ():
        options[str(option.get("name"))] = str(option.get("value") or "")
    return Resolving(
        _once((*before.nameservers, *(config.get("nameservers") or ())))[:NAMESERVERS_MAX],
        _once((*before.searches, *(config.get("searches") or ()))),
        tuple(options.items()),
    )


def _once(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _text(resolving: Resolving) -> str:
    lines = [f"nameserver {server}" for server in resolving.nameservers]
    if resolving.searches:
        lines.append(f"search {' '.join(resolving.searches)}")
    if resolving.options:
        spelled = (f"{name}:{value}" if value else name for name, value in resolving.options)
        lines.append(f"options {' '.join(spelled)}")
    return "\n".join(lines) + "\n"
