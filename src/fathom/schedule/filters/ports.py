"""Host ports: one pod per port, protocol and address; 0.0.0.0 is every address."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.reasons import HOST_PORTS
from fathom.schedule.context import Context
from fathom.schedule.rows import Reasons, Rows
from fathom.schedule.shape import ANY_ADDRESS, HostPort, Shape
from fathom.schedule.verdicts import Codes, Reason

TEXT = "node(s) didn't have free ports for the requested pod ports"


def ports(shape: Shape, rows: Rows, _: Context, reasons: Reasons) -> Codes:
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
    return any(port.address == ANY_ADDRESS or one in {ANY_ADDRESS, port.address} for one in addresses)
