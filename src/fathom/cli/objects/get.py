"""`fathom get`: objects as a table, or as documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from cyclopts import Parameter

from fathom.cli.api_server import Refused, ServerConnection
from fathom.cli.documents import list_of, print_documents, without_managed_fields
from fathom.cli.objects import jsonpath
from fathom.cli.objects.answers import done
from fathom.cli.objects.options import AllNamespaces, Named, Selector, named_objects
from fathom.cli.objects.override_notes import Shown, say_overrides
from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.objects.tables import (
    AS_TABLE,
    NONE,
    TableOptions,
    aligned,
    aligned_lines,
    columns_of,
    sorted_rows,
    widths_of,
)
from fathom.cli.output import output_parameter
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say, say_exactly

Obj = dict[str, Any]

PAGE_OBJECTS = 500
FORMATS = ("wide", "json", "yaml", "name", "jsonpath=TEMPLATE", "custom-columns=HEAD:PATH,…")
JSONPATH, CUSTOM_COLUMNS = "jsonpath=", "custom-columns="


class GetOptions(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str  # '' for all.
    output: str
    selector: str = ""
    field_selector: str = ""
    table: TableOptions = TableOptions()
    with_heads: bool = True
    sort_by: str = ""

    def query(self, **more: str) -> str:
        wanted = {"labelSelector": self.selector, "fieldSelector": self.field_selector, **more}
        return urlencode({name: value for name, value in wanted.items() if value})


def get(
    *what: Annotated[
        str,
        Parameter(
            name="KIND|KIND/NAME",
            help="A kind, kinds, or objects: pods; deployments,services; pod/web-1; nodes node-1",
        ),
    ],
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    output: Annotated[
        str, output_parameter(*FORMATS, help=f"One of {', '.join(FORMATS)}. Default: a table.")
    ] = "",
    selector: Selector = "",
    field_selector: Annotated[
        str, Parameter(help="Only objects with these fields: status.phase=Running,spec.nodeName=node-1")
    ] = "",
    watch: Annotated[
        bool,
        Parameter(name=("--watch", "-w"), negative=(), help="Keep watching: print a line for each change."),
    ] = False,
    watch_only: Annotated[
        bool, Parameter(negative=(), help="As --watch, without the objects that are there already.")
    ] = False,
    show_labels: Annotated[bool, Parameter(negative=(), help="A last column with all labels.")] = False,
    label_columns: Annotated[
        tuple[str, ...], Parameter(name=("--label-columns", "-L"), negative=(), help="A column of a label.")
    ] = (),
    no_headers: Annotated[bool, Parameter(negative=(), help="The rows alone.")] = False,
    sort_by: Annotated[str, Parameter(help="By a field, as JSONPath: .metadata.creationTimestamp")] = "",
    ignore_not_found: Annotated[
        bool, Parameter(negative=(), help="Exit with 0 if an object does not exist.")
    ] = False,
    raw: Annotated[str, Parameter(help="A path of the server: print its answer: /metrics/scheduler")] = "",
    kinds: Annotated[bool, Parameter(negative=(), help="List the kinds that the server has.")] = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show objects, as a table of the server's columns or as documents. Exits with 1 if one does not exist.

    Prints a table for each kind; with -o, documents, names or chosen fields.

    fathom get pods -o wide  where each pod runs
    fathom get deployment/web -o yaml  the whole object
    fathom get nodes -w  a line for each change
    """
    server = ServerConnection(found_kubeconfig(kubeconfig))
    if raw:
        return _print_raw(server, raw)
    resources = Resources(server)
    if kinds:
        return _print_kinds(resources)
    options = GetOptions(
        namespace="" if all_namespaces else chosen_namespace(namespace, kubeconfig),
        output=output,
        selector=selector,
        field_selector=field_selector,
        table=TableOptions(
            wide=output == "wide",
            with_namespace=all_namespaces,
            with_labels=show_labels,
            label_columns=label_columns,
        ),
        with_heads=not no_headers,
        sort_by=sort_by,
    )
    named = named_objects(what, resources)
    if watch or watch_only:
        return _watch(server, named, options, first=not watch_only)
    shown, missing = _Shown(server, options), []
    for each in named:
        missing += shown.add(each, several=len(named) > 1)
    shown.finish(missing=bool(missing))
    if missing and not ignore_not_found:
        raise Problem("; ".join(missing), exit_code=ANSWER_IS_NO)
    return 0


class _Shown:
    """Prints tables as they come, documents at the end."""

    def __init__(self, server: ServerConnection, options: GetOptions) -> None:
        self._server, self._options = server, options
        self._as_table = options.output in {"", "wide"}
        self._documents: list[Obj] = []
        self._is_list = False
        self._tables = 0
        self._rows: list[Shown] = []

    def add(self, named: Named, *, several: bool) -> list[str]:
        """Which of the objects do not exist."""
        if "list" not in named.resource.verbs and not named.names:
            raise Problem(f"objects of the kind {named.resource.full_name} cannot be listed: name one")
        self._is_list = self._is_list or several or len(named.names) != 1
        missing = []
        objects: list[Obj] = []
        for name in named.names or ("",):
            try:
                objects += self._fetched(named.resource, name)
            except Refused as refused:
                if refused.code != 404 or not name:
                    raise
                missing.append(str(refused))
        if self._as_table:
            self._print_tables(objects, named.resource, several=several)
        else:
            self._documents += [_with_kind(obj, named.resource) for obj in objects]
        return missing

    def finish(self, *, missing: bool) -> None:
        if missing and not self._documents:
            return
        if not self._as_table:
            _print(self._sorted(self._documents), self._options, as_list=self._is_list)
        elif self._tables:
            say_overrides(self._server, self._rows, namespace=self._options.namespace)
        else:
            where = f" in {self._options.namespace} namespace" if self._options.namespace else ""
            say(f"No resources found{where}.", err=True)

    def _fetched(self, resource: Resource, name: str) -> list[Obj]:
        """Objects, or tables of them. Raises Problem."""
        if not name:
            return list(_pages(self._server, resource, self._options, as_table=self._as_table))
        path = resource.path(self._options.namespace, name)
        if resource.namespaced and not self._options.namespace:
            raise Problem("an object of a namespace cannot be named with -A: give -n NAMESPACE")
        accept = AS_TABLE if self._as_table else "application/json"
        return [done(*self._server.request("GET", path, accept=accept), path)]

    def _print_tables(self, tables: Sequence[Obj], resource: Resource, *, several: bool) -> None:
        rows = [row for table in tables for row in _rows_of(table)]
        if not rows:
            return
        options = self._options.table
        if several:
            options = msgspec.structs.replace(options, prefix=f"{resource.label}/")
            if self._tables:
                say("")
        if not resource.namespaced:
            options = msgspec.structs.replace(options, with_namespace=False)
        columns = columns_of(_table_of(tables[0]), options)
        ordered = self._sorted(rows) if self._options.sort_by else sorted_rows({"rows": rows}, resource.kind)
        heads = [columns.heads] if self._options.with_heads else []
        say(*aligned_lines([*heads, *map(columns.row, ordered)]))
        self._tables += 1
        self._rows += [Shown(resource.kind, f"{resource.label}/{_name(row)}", row["object"]) for row in rows]

    def _sorted(self, objs: list[Obj]) -> list[Obj]:
        if not self._options.sort_by:
            return objs
        path = self._options.sort_by.strip("{}")
        path = path if path.startswith((".", "[")) else f".{path}"
        return sorted(objs, key=lambda obj: [str(value) for value in jsonpath.values(path, _whole(obj))])


def _name(row: Obj) -> str:
    return str(row["object"]["metadata"]["name"])


def _whole(obj: Obj) -> Obj:
    """The object of a table's row, or the object itself."""
    inner = obj.get("object")
    return inner if "cells" in obj and isinstance(inner, dict) else obj


def _pages(
    server: ServerConnection, resource: Resource, options: GetOptions, *, as_table: bool
) -> Iterator[Obj]:
    """Every object, or every page as a table. Raises Problem."""
    token = ""
    while True:
        whole = {"includeObject": "Object"} if as_table and options.sort_by else {}
        query = options.query(limit=str(PAGE_OBJECTS), **{"continue": token}, **whole)
        path = f"{resource.path(options.namespace)}?{query}"
        page = done(*server.request("GET", path, accept=AS_TABLE if as_table else "application/json"), path)
        if as_table:
            yield page
        else:
            yield from page.get("items") or ()
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            return


def _table_of(answer: Obj) -> Obj:
    """A table, also from a server that has none for this kind."""
    if answer.get("kind") == "Table":
        return answer
    objs = answer.get("items", [answer])
    rows = [{"cells": [obj["metadata"]["name"]], "object": obj} for obj in objs]
    return {"columnDefinitions": [{"name": "Name"}], "rows": rows}


def _rows_of(answer: Obj) -> list[Obj]:
    rows: list[Obj] = _table_of(answer).get("rows") or []
    return rows


def _with_kind(obj: Obj, resource: Resource) -> Obj:
    """Items of a list have no kind of their own."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


# Documents.


def _print(objs: Sequence[Obj], options: GetOptions, *, as_list: bool) -> None:
    output = options.output
    if output.startswith(JSONPATH):
        shown = [without_managed_fields(obj) for obj in objs]
        document = list_of(shown) if as_list else shown[0]
        say_exactly(jsonpath.printed(output.removeprefix(JSONPATH), document))
    elif output.startswith(CUSTOM_COLUMNS):
        say(*custom_columns(output.removeprefix(CUSTOM_COLUMNS), objs, with_heads=options.with_heads))
    elif objs or as_list:
        print_documents(objs, output, as_list=as_list)


def custom_columns(specification: str, objs: Sequence[Obj], *, with_heads: bool = True) -> list[str]:
    """`NAME:.metadata.name,NODE:.spec.nodeName`. Raises Problem."""
    pairs = [column.partition(":") for column in specification.split(",")]
    if not all(head and colon and path for head, colon, path in pairs):
        raise Problem(f"custom-columns reads HEAD:PATH,HEAD:PATH, not {specification!r}")
    rows = [[_cell(path, obj) for _, _, path in pairs] for obj in objs]
    return aligned_lines([*([[head for head, _, _ in pairs]] if with_heads else []), *rows])


def _cell(path: str, obj: Obj) -> str:
    shown = path.strip("{}")
    values = jsonpath.values(shown if shown.startswith((".", "[")) else f".{shown}", obj)
    return ",".join(value if isinstance(value, str) else jsonpath.text(value) for value in values) or NONE


# Watches.


def _watch(server: ServerConnection, named: Sequence[Named], options: GetOptions, *, first: bool) -> int:
    if len(named) != 1 or len(named[0].names) > 1:
        raise Problem("a watch is of one kind, or of one object")
    resource, names = named[0].resource, named[0].names
    if names:
        by_name = f"metadata.name={names[0]}"
        selector = f"{options.field_selector},{by_name}" if options.field_selector else by_name
        options = msgspec.structs.replace(options, field_selector=selector)
    as_table = options.output in {"", "wide"}
    accept = AS_TABLE if as_table else "application/json"
    path = resource.path(options.namespace)
    there = done(*server.request("GET", f"{path}?{options.query()}", accept=accept), path)
    revision = str((there.get("metadata") or {}).get("resourceVersion") or "")
    changes = server.lines(
        f"{path}?{options.query(watch='true', resourceVersion=revision)}", seconds=None, accept=accept
    )
    if as_table:
        _watch_rows(there, changes, options, resource, first=first)
    else:
        for obj in there.get("items") or () if first else ():
            _print([_with_kind(obj, resource)], options, as_list=False)
        for change in _objects(changes):
            _print([change], options, as_list=False)
    return 0


def _watch_rows(
    there: Obj, changes: Iterator[bytes], options: GetOptions, resource: Resource, *, first: bool
) -> None:
    shown = msgspec.structs.replace(
        options.table, with_namespace=options.table.with_namespace and resource.namespaced
    )
    columns = columns_of(_table_of(there), shown)
    rows = [columns.row(row) for row in sorted_rows(_table_of(there), resource.kind)]
    widths = widths_of([columns.heads, *rows])
    if options.with_heads and (rows or not first):
        say(aligned(columns.heads, widths))
    heads_shown = bool(rows) or not first
    say(*(aligned(row, widths) for row in rows if first))
    for change in _objects(changes):
        table = _table_of(change)
        if table.get("columnDefinitions"):
            columns = columns_of(table, shown)
        if not heads_shown and options.with_heads:
            heads_shown = True
            widths = widths_of([columns.heads, *map(columns.row, table.get("rows") or ())])
            say(aligned(columns.heads, widths))
        say(*(aligned(columns.row(row), widths) for row in table.get("rows") or ()))


def _objects(changes: Iterator[bytes]) -> Iterator[Obj]:
    for line in changes:
        event = msgspec.json.decode(line)
        if event.get("type") == "ERROR":
            raise Problem(str((event.get("object") or {}).get("message") or "the watch has ended"))
        if event.get("type") != "BOOKMARK":
            yield event["object"]


# Other things.


def _print_raw(server: ServerConnection, path: str) -> int:
    if not path.startswith("/"):
        raise Problem(f"--raw is a path of the server, for example /readyz, not {path!r}")
    status, body = server.raw("GET", path, accept="*/*")
    if status != 200:
        raise Problem(f"{path}: HTTP {status}: {body[:500].decode(errors='replace')}", exit_code=ANSWER_IS_NO)
    say_exactly(body.decode(errors="replace"))
    return 0


def _print_kinds(resources: Resources) -> int:
    heads = ("NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND")
    rows = [
        (
            resource.plural,
            ",".join(resource.short_names),
            resource.api_version,
            str(resource.namespaced).lower(),
            resource.kind,
        )
        for resource in resources.listed
    ]
    say(*aligned_lines([heads, *rows]))
    return 0
