"""Objects as documents: YAML, JSON or names, as kubectl prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.terminal import say, say_document, say_json

Obj = dict[str, Any]
TEXT_TAG = "tag:yaml.org,2002:str"


def print_documents(objs: Sequence[Obj], output: str, *, as_list: bool = False) -> None:
    """One document. `as_list`: a list, also of one object."""
    shown = [without_managed_fields(obj) for obj in objs]
    if output == "name":
        say(*(name_of(obj) for obj in objs))
        return
    document: Any = list_of(shown) if as_list else shown[0]
    if output == "json":
        import msgspec  # noqa: PLC0415  # See the package's docstring.

        say_json(msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=4).decode())
    else:
        say_document(as_yaml(document))


def list_of(objs: Sequence[Obj]) -> Obj:
    return {"apiVersion": "v1", "items": list(objs), "kind": "List", "metadata": {"resourceVersion": ""}}


def as_yaml(document: Any, *, sort_keys: bool = True) -> str:
    """As kubectl writes it: fields in order, texts that read like numbers in double quotes, long ones as
    blocks."""
    import yaml  # noqa: PLC0415

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # chosen at run time
        pass

    def scalar(dumper: Any, value: str) -> Any:
        is_text = dumper.resolve(yaml.ScalarNode, value, (True, False)) == TEXT_TAG
        style = "|" if "\n" in value else None if is_text else '"'
        return dumper.represent_scalar(TEXT_TAG, value, style=style)

    Dumper.add_representer(str, scalar)
    return str(yaml.dump(document, Dumper=Dumper, allow_unicode=True, width=1 << 30, sort_keys=sort_keys))


def name_of(obj: Obj) -> str:
    """'scheduleroverride.fathom.dev/risk-api'"""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    kind = str(obj.get("kind") or "").lower()
    return f"{kind}.{group}/{obj['metadata']['name']}" if group else f"{kind}/{obj['metadata']['name']}"


def without_managed_fields(obj: Obj) -> Obj:
    meta = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": meta}
