"""Volumes that tie a pod to nodes: node affinity and zone labels of the volumes that its claims are bound to,
or could be bound to (`delayed_claims`). A pod that claims devices is refused: without them it would never
start."""

from __future__ import annotations

from fathom.model.reasons import VOLUME
from fathom.schedule.decide.context import DelayedClaim, PlacementContext, Volume
from fathom.schedule.decide.node_columns import Bools
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.verdicts import Codes, Reason


def _reason(text: str, *names: str) -> Reason:
    return Reason("VolumeBinding", (text,), resolvable=False, pending=VOLUME, names=names)


UNREACHABLE = _reason("node(s) had volume node affinity conflict")
ELSEWHERE = _reason("node(s) had no available volume zone")
NOT_TO_BE_HAD = _reason("node(s) didn't find available persistent volumes to bind")
UNBOUND = _reason("pod has unbound immediate PersistentVolumeClaims")
DEVICES = _reason("pod claims devices (resourceClaims), which this scheduler does not allocate")


def volumes(shape: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    codes = rows.codes()
    if shape.devices:
        codes[codes == 0] = reasons.code(DEVICES)
    for claim in shape.claims:
        volume = world.volumes.get((shape.namespace, claim))
        if volume is not None:
            _judge(volume, claim, rows, codes, reasons)
    return codes


def _judge(volume: Volume, claim: str, rows: Rows, codes: Codes, reasons: Reasons) -> None:
    if volume.missing:
        codes[codes == 0] = reasons.code(_reason(f'persistentvolumeclaim "{claim}" not found', claim))
        return
    if volume.unbound:
        codes[codes == 0] = reasons.code(UNBOUND)
        return
    if volume.delayed is not None:
        codes[(codes == 0) & ~_offered(volume.delayed, rows)] = reasons.code(NOT_TO_BE_HAD)
        return
    if volume.node_terms is not None:
        codes[(codes == 0) & ~rows.matching(volume.node_terms)] = reasons.code(UNREACHABLE)
    if volume.zones:
        codes[(codes == 0) & ~_in_zones(volume, rows)] = reasons.code(ELSEWHERE)


def _offered(claim: DelayedClaim, rows: Rows) -> Bools:
    if claim.selected:
        return rows.named(claim.selected)
    offered = rows.no()
    for terms in claim.offers:
        offered |= rows.yes() if terms is None else rows.matching(terms)
    return offered


def _in_zones(volume: Volume, rows: Rows) -> Bools:
    good = rows.yes()
    for label, values in volume.zones:
        in_zone = rows.no()
        for value in values:
            in_zone |= rows.having(((label, value),))
        good &= in_zone
    return good
