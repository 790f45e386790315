"""Answers the certificate requests of nodes: looks for them in the cache, signs with the cluster's CA."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

from fathom.api.auth.certificates import Pki
from fathom.api.auth.node_certificates import REQUESTS, Approve, Fail, Sign, judge, sign
from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, uid_of
from fathom.model.view import Seen, View
from fathom.seams.log import Log
from fathom.seams.outside import Clock

LOOK_S = 0.5  # There are few requests, and an agent waits for the answer.
PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


class NodeCertificates:
    def __init__(self, writer: HousekeepingWriter, view: View, pki: Pki, clock: Clock, *, log: Log) -> None:
        self._writer = writer
        self._view = view
        self._pki = pki
        self._clock = clock
        self._log = log
        # UID -> revision of requests with which there is nothing to do until they change. Judging one checks
        # a signature: very many that wait for an operator must not be judged twice a second.
        self._idle: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            requests = {uid_of(seen.obj): seen for seen in self._view.list(REQUESTS)}
            self._idle = {uid: revision for uid, revision in self._idle.items() if uid in requests}
            for uid, seen in requests.items():
                if self._idle.get(uid) == seen.revision:
                    continue
                await asyncio.sleep(0)  # Other requests come between two signatures.
                try:
                    await self._answer(seen)
                except ApiError as error:
                    name = seen.obj["metadata"]["name"]
                    self._log.warn("a certificate request waits", request=name, error=error.message)

    async def _answer(self, seen: Seen) -> None:
        answer = judge(seen.obj, node_exists=self._node_exists)
        if isinstance(answer, Fail):
            await self._write(seen, "status", _condition("Failed", answer.why), why=answer.why)
        elif isinstance(answer, Approve):
            why = f"node {answer.node} has shown a token that lets it join, or its own certificate"
            await self._write(seen, "approval", _condition("Approved", why), why=why)
        elif isinstance(answer, Sign):
            certificate = b64encode(sign(self._pki, seen.obj, clock=self._clock)).decode()
            why = f"the request for node {answer.node} is approved"
            await self._write(seen, "status", certificate=certificate, why=why)
        else:
            self._idle[uid_of(seen.obj)] = seen.revision

    async def _write(self, seen: Seen, subresource: str, *conditions: Obj, why: str, **fields: Any) -> None:
        name, uid = str(seen.obj["metadata"]["name"]), str(seen.obj["metadata"]["uid"])
        status = seen.obj.get("status") or {}
        body = {
            **seen.obj,
            "metadata": {**seen.obj["metadata"], "resourceVersion": str(seen.revision)},
            "status": {**status, **fields, "conditions": [*(status.get("conditions") or ()), *conditions]},
        }
        subject, cause = Subject(REQUESTS, "", name, uid), WakeCause("event", "", REQUESTS, "", name)
        with ignored(404, 409):  # Another server was faster.
            path = f"{PATH}/{name}/{subresource}"
            await self._writer.write("PUT", path, subject, cause=cause, why=why, body=body)

    def _node_exists(self, node: str) -> bool:
        return self._view.get("nodes", Key("", node)) is not None


def _condition(type_: str, message: str) -> Obj:
    reason = "AutoApproved" if type_ == "Approved" else "SignerValidationFailure"
    return {"type": type_, "status": "True", "reason": reason, "message": message}
