"""Volumes, as far as they tie a pod to places: node affinity and zone labels of the volumes its claims are
bound to. Making volumes is not decided here."""

from __future__ import annotations

from fathom.schedule.columns import Bools
from fathom.schedule.context import Context, Volume
from fathom.schedule.rows import Reasons, Rows
from fathom.schedule.shape import Shape
from fathom.schedule.verdicts import Codes, Reason

UNREACHABLE = Reason("VolumeBinding", ("node(s) had volume node affinity conflict",), resolvable=False)
ELSEWHERE = Reason("VolumeBinding", ("node(s) had no available volume zone",), resolvable=False)
UNBOUND = Reason("VolumeBinding", ("pod has unbound immediate PersistentVolumeClaims",), resolvable=False)


def volumes(shape: Shape, rows: Rows, world: Context, reasons: Reasons) -> Codes:
    codes = rows.codes()
    for claim in shape.claims:
        volume = world.volumes.get((shape.namespace, claim))
        if volume is not None:
            _judge(volume, claim, rows, codes, reasons)
    return codes


def _judge(volume: Volume, claim: str, rows: Rows, codes: Codes, reasons: Reasons) -> None:
    if volume.missing:
        text = f'persistentvolumeclaim "{claim}" not found'
        codes[codes == 0] = reasons.code(Reason("VolumeBinding", (text,), resolvable=False))
        return
    if volume.unbound:
        codes[codes == 0] = reasons.code(UNBOUND)
        return
    if volume.node_terms is not None:
        codes[(codes == 0) & ~rows.matching(volume.node_terms)] = reasons.code(UNREACHABLE)
    if volume.zones:
        codes[(codes == 0) & ~_in_zones(volume, rows)] = reasons.code(ELSEWHERE)


def _in_zones(volume: Volume, rows: Rows) -> Bools:
    good = rows.yes()
    for label, values in volume.zones:
        found = rows.no()
        for value in values:
            found |= rows.having(((label, value),))
        good &= found
    return good
