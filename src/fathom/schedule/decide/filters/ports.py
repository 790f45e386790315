"""Host ports: one pod per port, protocol and address; 0.0.0.0 means every address."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.reasons import HOST_PORTS
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import ANY_ADDRESS, HostPort, PodShape
from fathom.schedule.decide.verdicts import Codes, Reason

TEXT = "node(s) didn't have free ports for the requested pod ports"


def ports(shape: PodShape, rows: Rows, _: PlacementContext, reasons: Reasons) -> Codes:
    codes = rows.codes()
    if not shape.ports:
        return codes
    code = reasons.code(Reason("NodePorts", (TEXT,), pending=HOST_PORTS))
    for port in shape.ports:
        taken = rows.table.tally.ports.get((port.protocol, port.port)) or {}
        for row in taken if rows.whole else (row for row in rows.numbers() if row in taken):
            if clashes(port, taken[row]):
                position = rows.position(row)
                if position is not None:
                    codes[position] = code
    return codes


def clashes(port: HostPort, addresses: Iterable[str]) -> bool:
    return any(port.address == ANY_ADDRESS or address in {ANY_ADDRESS, port.address} for address in addresses)
