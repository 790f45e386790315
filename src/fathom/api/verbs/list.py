"""LIST: from the cache where possible, from the store's history where an exact old revision is requested.

All pages of a paged list show one revision: the first is read from the cache, the others from the store at
the first one's revision, which the continue token carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.api import response_forms
from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs.selection import Selection, choice_of
from fathom.api.verbs.versions import (
    Continue,
    decode_continue,
    encode_continue,
    list_revision_of,
    parse_limit,
)
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, bad_request, expired, timed_out
from fathom.model.objects import Obj
from fathom.store.protocol import Compacted, Entry, FutureRevision

# How many entries are read from the store at a time when most may be filtered out.
SCAN_ENTRIES = 1000


class ListedEntries(msgspec.Struct, frozen=True):
    entries: Sequence[Entry]
    revision: int
    last: str = ""  # The last key examined, '' when the list is complete.
    remaining: int | None = None


async def list_(core: Core, call: Call) -> Response:
    choice = choice_of(core, call)
    selected = await find(core, call, choice)
    return _answer(core, call, selected, choice)


async def find(core: Core, call: Call, choice: Selection) -> ListedEntries:
    request = call.request
    limit = parse_limit(request)
    token_text = request.param("continue")
    if token_text:
        return await _next_page(core, call, choice, token_text, limit)
    list_revision = list_revision_of(request)
    if list_revision.read == "exact":
        return await _from_store(core, call, choice, revision=list_revision.revision, limit=limit, after="")
    if list_revision.read == "newest":
        await core.catch_up()
    elif list_revision.read == "not-older-than":
        await core.wait_for(list_revision.revision)
    return _from_cache(core, call, choice, limit)


async def _next_page(core: Core, call: Call, choice: Selection, text: str, limit: int) -> ListedEntries:
    if call.request.param("resourceVersion") not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    token = decode_continue(text)
    after = f"{call.kind.prefix}{token.start}"
    if token.rv > 0:
        return await _from_store(core, call, choice, revision=token.rv, limit=limit, after=after)
    # A token that was sent with a 410: continue at the newest revision; the list is then not consistent.
    revision = await core.catch_up()
    return await _from_store(core, call, choice, revision=revision, limit=limit, after=after)


def _from_cache(core: Core, call: Call, choice: Selection, limit: int) -> ListedEntries:
    cache = core.cache.of(call.kind.stored_as or call.kind.resource)
    entries: list[Entry] = []
    keys = _keys(core, call, choice)
    for position, key in enumerate(keys):
        entry = cache.entries.get(key)
        if entry is None or not _wanted(choice, entry):
            continue
        entries.append(entry)
        if limit and len(entries) == limit and position + 1 < len(keys):
            remaining = len(keys) - position - 1 if choice.matches is None else None
            return ListedEntries(entries, core.cache.reached, last=key, remaining=remaining)
    return ListedEntries(entries, core.cache.reached)


def _keys(core: Core, call: Call, choice: Selection) -> Sequence[str]:
    if choice.name and (choice.namespace or not call.kind.namespaced):
        return (call.kind.store_key(choice.namespace or "", choice.name),)
    return choice.keys(core.cache.of(call.kind.stored_as or call.kind.resource))


def _wanted(choice: Selection, entry: Entry) -> bool:
    return choice.matches is None or choice.matches(entry.body.obj)


async def _from_store(
    core: Core, call: Call, choice: Selection, *, revision: int, limit: int, after: str
) -> ListedEntries:
    prefix = call.kind.prefix if choice.namespace is None else f"{call.kind.prefix}{choice.namespace}/"
    entries: list[Entry] = []
    while True:
        count = limit - len(entries) if limit and choice.matches is None else SCAN_ENTRIES if limit else 0
        try:
            page = await core.store.range(prefix, revision=revision, limit=count, after=after)
        except Compacted:
            raise _too_old(call, after) from None
        except FutureRevision as error:
            raise timed_out(f"Too large resource version: {revision}, current: {error.current}") from None
        for position, entry in enumerate(page.entries):
            if not _wanted(choice, entry):
                continue
            entries.append(entry)
            after_this = len(page.entries) - position - 1
            if limit and len(entries) == limit and (after_this or page.more):
                exact = choice.matches is None and (page.remaining or not page.more)
                remaining = after_this + page.remaining if exact else None
                return ListedEntries(entries, revision, last=entry.key, remaining=remaining)
        if not page.more:
            return ListedEntries(entries, revision)
        after = page.entries[-1].key


def _too_old(call: Call, after: str) -> ApiError:
    if not after:
        return expired(
            "The resourceVersion for the provided list is too old. List again without resourceVersion."
        )
    token = encode_continue(Continue(rv=-1, start=after.removeprefix(call.kind.prefix)))
    return expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned and "
        "now may show up in the list.",
        continue_token=token,
    )


def _answer(core: Core, call: Call, selected: ListedEntries, choice: Selection) -> Response:
    meta = list_meta(call, selected)
    if call.form.shared:
        return Response(status=200, body=response_forms.shared_list(call.kind, selected.entries, meta))
    if call.form.shape == response_forms.PLAIN:
        return Response(
            status=200, body=response_forms.plain_list(call.kind, _encoded(call, selected.entries), meta)
        )
    objs = [response_forms.wire_obj(call.kind, entry) for entry in selected.entries]
    now_ns = core.outside.clock.now_ns()
    shape = response_forms.shaped(call.kind, objs, call.form, now_ns=now_ns, list_meta=meta)
    return Response(status=200, body=encode_json(shape))


def _encoded(call: Call, entries: Sequence[Entry]) -> Iterator[bytes]:
    return (response_forms.wire(call.kind, entry) for entry in entries)


def list_meta(call: Call, selected: ListedEntries) -> Obj:
    meta: Obj = {"resourceVersion": str(selected.revision)}
    if selected.last:
        start = selected.last.removeprefix(call.kind.prefix)
        meta["continue"] = encode_continue(Continue(rv=selected.revision, start=start))
        if selected.remaining is not None:
            meta["remainingItemCount"] = selected.remaining
    return meta
