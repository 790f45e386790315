"""Objects of one of fathom's kinds, for commands that read and write a few of them. No event loop is loaded.

What the server refuses is a `Refused`: its message has the cause and what to do, and the exit code is 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from fathom.cli.api_server import NoAnswerNow, Refused
from fathom.cli.ask.explanations import NO_SUCH_PATH, OWN_KINDS, ApiServer
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.explain.kubernetes_texts import is_forbidden_by_roles, is_stale_write
from fathom.model.media_types import MERGE_PATCH

Obj = dict[str, Any]

PAGE_OBJECTS = 500
ATTEMPTS = 5  # Of a write to an object whose status changes meanwhile.
RETRY_S = 0.5  # Before a watch that broke is opened again.


class OwnKind(msgspec.Struct, frozen=True):
    """A kind as its commands name it in messages."""

    kind: str
    plural: str
    command: str  # The command that lists its objects.
    lists_all: bool = False  # Whether it lists those of all namespaces without being told so.


class OwnObjects:
    def __init__(self, server: ApiServer, kind: OwnKind) -> None:
        self.server = server
        self._kind = kind

    # Reads.

    def get(self, namespace: str, name: str) -> Obj:
        """Raises Problem."""
        return self._done(*self.server.request("GET", self._path(namespace, name)), namespace, name)

    def find(self, namespace: str, name: str) -> Obj | None:
        """None if there is no such object. Raises Problem."""
        try:
            return self.get(namespace, name)
        except Refused as refused:
            if refused.code == 404:
                return None
            raise

    def list(self, namespace: str = "") -> list[Obj]:
        """Of one namespace, or of all. Raises Problem."""
        items: list[Obj] = []
        token = ""
        while True:
            query = urlencode({"limit": PAGE_OBJECTS, **({"continue": token} if token else {})})
            page = self._done(*self.server.request("GET", f"{self._path(namespace)}?{query}"), namespace, "")
            items += [
                {"apiVersion": "fathom.dev/v1alpha1", "kind": self._kind.kind, **item}
                for item in page.get("items") or ()
            ]
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return items

    def states(self, namespace: str, name: str, *, seconds: float) -> Iterator[Obj | None]:
        """The object as it is and each time it changes, until the time is over. None is the last if the
        object is gone; the state before it is the one in which it was deleted. Raises Problem."""
        until = time.monotonic() + seconds
        obj = self.find(namespace, name)
        uid = _meta(obj).get("uid")
        while obj is not None and _meta(obj).get("uid") == uid:
            yield obj
            with suppress(NoAnswerNow):
                for change in self._changes(namespace, obj, until - time.monotonic()):
                    yield change
                    if change is None:
                        return
            left_s = until - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(RETRY_S, left_s))  # The watch ended early.
            with suppress(NoAnswerNow):  # The server may be starting again.
                obj = self.find(namespace, name)
        yield None

    def _changes(self, namespace: str, obj: Obj, seconds: float) -> Iterator[Obj | None]:
        """One watch, from this state on."""
        if seconds <= 0:
            return
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={_meta(obj).get('name')}",
            "resourceVersion": _meta(obj).get("resourceVersion"),
            "timeoutSeconds": int(seconds) + 1,
        }
        path = f"{self._path(namespace)}?{urlencode(query)}"
        for line in self.server.lines(path, seconds=seconds):
            event = msgspec.json.decode(line)
            if event.get("type") == "ERROR":  # History is gone: the caller reads the object again.
                return
            yield event["object"]
            if event.get("type") == "DELETED":
                yield None

    # Writes.

    def create(self, namespace: str, obj: Obj, *, dry_run: bool = False) -> Obj:
        return self._write("POST", self._path(namespace), obj, namespace, _meta(obj), dry_run=dry_run)

    def patch(
        self, namespace: str, obj: Obj, patch: Obj, *, subresource: str = "", dry_run: bool = False
    ) -> Obj:
        """A merge patch of the object that was read: never of a later one of the same name."""
        meta = _meta(obj)
        whole = {**patch, "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        path = self._path(namespace, str(meta["name"]), subresource)
        return self._write("PATCH", path, whole, namespace, meta, dry_run=dry_run, media=MERGE_PATCH)

    def patch_same_spec(self, namespace: str, obj: Obj, patch: Obj, *, subresource: str = "") -> Obj:
        """A patch by somebody who has read the spec, such as an approval or an extension.

        1. A person reads the spec. 2. Its author edits it. 3. The person's answer arrives: it must not be one
        about the edited spec. So it is written at the revision that was read, and again only for the same
        spec: controllers write the status meanwhile."""
        current, name = obj, str(_meta(obj)["name"])
        for attempt in range(ATTEMPTS):
            try:
                return self.patch(namespace, current, patch, subresource=subresource)
            except Refused as refused:
                if refused.code != 409 or attempt == ATTEMPTS - 1:
                    raise
            current = self.get(namespace, name)
            if _meta(current)["uid"] != _meta(obj)["uid"] or current.get("spec") != obj.get("spec"):
                break
        changed = f"{self._kind.kind} {namespace}/{name} was changed meanwhile: look at it again"
        raise Problem(changed, exit_code=ANSWER_IS_NO)

    def delete(self, namespace: str, obj: Obj) -> Obj:
        """The object that was read, and never a later one of the same name."""
        meta = _meta(obj)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": meta["uid"]}}
        return self._write("DELETE", self._path(namespace, str(meta["name"])), options, namespace, meta)

    def _write(
        self,
        method: str,
        path: str,
        body: Obj,
        namespace: str,
        meta: Obj,
        *,
        dry_run: bool = False,
        media: str = "application/json",
    ) -> Obj:
        name = str(meta.get("name") or "")
        query = "?dryRun=All" if dry_run else ""
        try:
            status, answer = self.server.request(method, path + query, body, media=media)
            return self._done(status, answer, namespace, name)
        except NoAnswerNow as error:
            if dry_run:
                raise
            what = f"whether {self._kind.kind} {namespace}/{name} was changed is unknown"
            raise NoAnswerNow(f"{error}; {what}: check with `{self._kind.command}`") from error

    def _path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        parts = [OWN_KINDS]
        if namespace:
            parts.append(f"/namespaces/{quote(namespace, safe='')}")
        parts += [f"/{part}" for part in (self._kind.plural, quote(name, safe=""), subresource) if part]
        return "".join(parts)

    def _done(self, status: int, answer: Obj, namespace: str, name: str) -> Obj:
        if status in {200, 201, 202}:
            return answer
        message = str(answer.get("message") or f"the API server answered with HTTP {status}")
        reason = str(answer.get("reason") or "")
        if status == 429 or status >= 500:
            raise NoAnswerNow(message)
        if status == 404 and (not reason or message == NO_SUCH_PATH):
            lacks = f"this API server has no {self._kind.kind}s (or lacks this request for them)"
            raise Refused(f"{lacks}: it is not fathom, or an older one", code=501)
        what_to_do = self._advice(status, reason, message, namespace)
        if status == 404:
            message = f"there is no {self._kind.kind} {namespace}/{name}"
        raise Refused(f"{message.rstrip('. ')}{what_to_do}", reason=reason, code=status)

    def _advice(self, status: int, reason: str, message: str, namespace: str) -> str:
        """What to do about a refusal, where its message does not say it; '' where it is about a field."""
        scope = f" -n {namespace}" if namespace else ""
        if status == 401:
            return ": check the user's credentials in the kubeconfig"
        if status == 404:
            return f"; list them with `{self._kind.command}{'' if self._kind.lists_all else ' -A'}`"
        if reason == "AlreadyExists":
            return f"; choose another name, or see it with `{self._kind.command}{scope}`"
        if status == 409 and is_stale_write(message):
            return "; it was changed meanwhile: look at it again, then repeat the command"
        if status == 403 and is_forbidden_by_roles(message):
            return f"; see what you may do with `kubectl auth can-i --list{scope}`"
        return ""


def _meta(obj: Obj | None) -> Obj:
    return (obj or {}).get("metadata") or {}
