"""Publish where a process serves its metrics, as EndpointSlice `fathom-system/metrics.NAME`.

It holds the address and the certificate; only fathom's own accounts and administrators may write it.

Prometheus discovers the same objects (role `endpointslice`); the API server reads them for `/metrics/NAME`.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256

import msgspec

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Rejected
from fathom.control.decision_log import DecisionLog, subject_of
from fathom.control.plan import contains
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.cause import WakeCause
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, metadata
from fathom.model.processes import CERTIFICATE, PARTS, PORT, PREFIX, PROCESS
from fathom.model.resources import SLICES
from fathom.seams.log import Log

# Retries double, since an account may lack the right to write; once published, it is checked every LOOK_S.
RETRY_S_MIN, LOOK_S = 1.0, 60.0
INVALID = 422
LOOKED = WakeCause("timer", f"at the start, then every {LOOK_S:g} s")


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A process that serves metrics, and where."""

    process: str  # 'deciders'
    parts: tuple[str, ...]  # 'scheduler', 'controllers'
    where: str  # Machine and directory: two processes of one name get an object each.
    address: str
    port: int
    certificate: str

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.process}-{sha256(self.where.encode()).hexdigest()[:8]}"


def slice_of(published: Published) -> Obj:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": published.name,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {PROCESS: published.process, "endpointslice.kubernetes.io/managed-by": "fathom.dev"},
            "annotations": {PARTS: ",".join(published.parts), CERTIFICATE: published.certificate},
        },
        "addressType": "IPv6" if ":" in published.address else "IPv4",
        "endpoints": [{"addresses": [published.address], "conditions": {"ready": True}}],
        "ports": [{"name": PORT, "port": published.port, "protocol": "TCP"}],
    }


class NeverTaken(Exception):
    """The server refuses such an object: kube-apiserver takes no loopback addresses."""


async def keep_published(api: Api, published: Published, log: Log, decisions: DecisionLog) -> None:
    """Keep it published, for ever. A failed write is retried; each reason is logged once."""
    wanted, logged, pause_s = slice_of(published), "", RETRY_S_MIN
    while True:
        try:
            why = await publish(api, wanted, decisions)
        except NeverTaken as error:
            log.info("the metrics endpoint is not published", process=published.process, why=str(error))
            return
        if why and why != logged:
            log.warn("the metrics endpoint cannot be published", process=published.process, error=why)
        logged = why
        pause_s = min(2 * pause_s, LOOK_S) if why else RETRY_S_MIN
        await asyncio.sleep(pause_s if why else LOOK_S)


async def publish(api: Api, wanted: Obj, decisions: DecisionLog) -> str:
    """Why it could not be published; '' if it is. Raises NeverTaken."""
    try:
        current = await api.get(SLICES, SYSTEM_NAMESPACE, metadata(wanted)["name"])
    except ApiError as error:
        return error.message
    if current is not None and contains(current, wanted):
        return ""
    subject = subject_of(SLICES, current or wanted)
    verdict, why = ("create", "it is not published") if current is None else ("patch", "it has moved")
    id_ = decisions.decided(verdict, subject, cause=LOOKED, why=why)
    api = api.with_decision(id_)
    if current is None:
        outcome = await api.create(SLICES, SYSTEM_NAMESPACE, wanted)
    else:
        outcome = await api.patch(SLICES, SYSTEM_NAMESPACE, metadata(wanted)["name"], wanted)
    decisions.concluded(id_, outcome, subject)
    if isinstance(outcome, Committed):
        return ""
    if not isinstance(outcome, Rejected):
        return str(outcome)
    if outcome.code == INVALID:
        raise NeverTaken(outcome.message)
    return outcome.message
