"""The fields of a Struct as rows of a table: path, type, words. Words are a schema's description, else the
comment in the source, else what `general` has for the name."""

import ast
import inspect as source_of
import re
from functools import cache
from pathlib import Path
from types import MappingProxyType

from msgspec import inspect

SCALARS = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.AnyType: "any",
}
OF_EVERY_OBJECT = frozenset({"apiVersion", "kind", "metadata"})


def rows(shape, *, skip=frozenset(), path="", above=(), general=MappingProxyType({})):
    """(path, type, words) of every field, those of a nested Struct below it, unless it is among `above`."""
    info = inspect.type_info(shape)
    for field in info.fields:
        if not path and field.encode_name in skip:
            continue
        described, kind = unwrapped(field.type)
        here = f"{path}.{field.encode_name}" if path else field.encode_name
        name, nested = type_words(kind)
        required = " Required." if described.get("required") else ""
        words = (
            described.get("description")
            or comment_of(shape, field.name)
            or meaning(field.encode_name, nested, general)
        )
        yield f"{here}{nested_mark(kind)}", name, f"{words}{required}".strip()
        if nested is not None and nested not in above:
            yield from rows(nested, path=f"{here}{nested_mark(kind)}", above=(*above, shape), general=general)


def meaning(name, nested, general):
    """What the Struct of the field says about itself, else what `general` has for the name."""
    if name == "status" and nested is None:
        return "True, False or Unknown, of a condition."
    said = nested.__dict__.get("__doc__") if nested is not None else None
    return " ".join((said or "").split()) or general.get(name, "")


def unwrapped(info):
    """What annotations say about a type, and the type itself, without None."""
    described = {}
    while isinstance(info, inspect.Metadata):
        required = {"required": True} if (info.extra or {}).get("required") else {}
        described = {**(info.extra_json_schema or {}), **described, **required}
        info = info.type
    if isinstance(info, inspect.UnionType):
        kept = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        if len(kept) == 1:
            more, info = unwrapped(kept[0])
            described = {**more, **described}
    return described, info


def type_words(info):
    """The type in words, and the Struct that is in it, if any."""
    _, info = unwrapped(info)
    if isinstance(info, inspect.StructType):
        return "object", info.cls
    if isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.SetType | inspect.FrozenSetType):
        words, nested = type_words(info.item_type)
        return f"list of {plural(words)}", nested
    if isinstance(info, inspect.TupleType):
        return f"list of {len(info.item_types)}", None
    if isinstance(info, inspect.DictType):
        words, nested = type_words(info.value_type)
        return f"map of {plural(words)}", nested
    if isinstance(info, inspect.LiteralType):
        return ", ".join(f"`{value}`" if value != "" else '`""`' for value in info.values), None
    if isinstance(info, inspect.UnionType):
        return " or ".join(dict.fromkeys(type_words(each)[0] for each in info.types)), None
    return SCALARS.get(type(info), "any"), None


def plural(words):
    if words == "any" or words.startswith("`") or " " in words:
        return words
    return f"{words}s"


def nested_mark(info):
    """`[]` after a list and `.NAME` after a map, where the rows below are of its items."""
    _, info = unwrapped(info)
    if isinstance(info, inspect.VarTupleType | inspect.ListType):
        return "[]"
    return ".*" if isinstance(info, inspect.DictType) and type_words(info)[1] is not None else ""


def comment_of(shape, name):
    for owner in shape.__mro__:
        if name in comments(owner):
            return comments(owner)[name]
    return ""


@cache
def comments(shape):
    """Field -> the comment at the end of its line."""
    try:
        file, first = source_of.getsourcefile(shape), source_of.getsourcelines(shape)[1]
    except (OSError, TypeError):
        return {}
    lines = Path(file).read_text().splitlines()
    tree = ast.parse("\n".join(lines))
    body = next(
        each.body
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
        and first <= each.lineno <= first + 5
        and each.name == shape.__name__
    )
    found = {}
    for statement in body:
        if isinstance(statement, ast.AnnAssign):
            said = re.search(r"#\s(?!noqa)(.*)$", lines[statement.end_lineno - 1][statement.end_col_offset :])
            found[statement.target.id] = said[1].split("  # ")[0].strip() if said else ""
    return found


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def table(found):
    lines = ["| field | type | |", "| --- | --- | --- |"]
    return [*lines, *(f"| `{path}` | {cell(kind)} | {cell(words)} |" for path, kind, words in found)]
