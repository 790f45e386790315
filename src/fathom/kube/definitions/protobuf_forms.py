"""Protobuf messages that are one value in JSON: times, quantities, raw JSON, unions like int-or-string.

Their definitions describe the JSON, not the protobuf message. Here are the fields of the messages, written as
definitions, and the JSON value that they mean together.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from fathom.kube.definitions import parse
from fathom.kube.definitions.definitions import INT_OR_STRING, MICRO_TIME, QUANTITY, TIME, Schema
from fathom.kube.definitions.parse import MalformedBody
from fathom.model.objects import Obj
from fathom.model.times import EPOCH

_RUNTIME: Final = "io.k8s.apimachinery.pkg.runtime."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
ENVELOPE: Final = f"{_RUNTIME}Unknown"


class MessageForm(NamedTuple):
    schema: Schema
    means: Callable[[Obj], Any]  # None: nothing, a null in JSON.


def _form(means: Callable[[Obj], Any] = dict, **properties: Schema) -> MessageForm:
    return MessageForm({"properties": properties}, means)


def _time(message: Obj) -> str | None:
    return _moment(message, "seconds")


def _micro_time(message: Obj) -> str | None:
    return _moment(message, "microseconds")


def _moment(message: Obj, precision: str) -> str | None:
    if not message:  # No time at all; for the first second of 1970, zeros are written.
        return None
    after = {"seconds": message.get("seconds", 0), "microseconds": message.get("nanos", 0) // 1000}
    try:
        moment = EPOCH + timedelta(**after)
    except OverflowError:
        raise MalformedBody(f"{after['seconds']} seconds after 1970 is not a valid time") from None
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def _int_or_string(message: Obj) -> int | str:
    value: int | str = message.get("strVal", "") if message.get("type") else message.get("intVal", 0)
    return value


def _json(message: Obj) -> Any:
    return parse.plain(message["raw"]) if "raw" in message else None


_TEXT: Final[Schema] = {"type": "string"}
_RAW: Final[Schema] = {"type": "string", "format": "raw"}  # Bytes, left as they are.
_FLAG: Final[Schema] = {"type": "boolean"}
_INT32: Final[Schema] = {"type": "integer", "format": "int32"}
_INT64: Final[Schema] = {"type": "integer", "format": "int64"}
_HEAD: Final[Schema] = {"$ref": f"#/$defs/{_RUNTIME}TypeMeta"}
_PROPS: Final[Schema] = {"$ref": f"#/$defs/{_EXTENSIONS}JSONSchemaProps"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_MANY_PROPS: Final[Schema] = {"type": "array", "items": _PROPS}

FORMS: Final[dict[str, MessageForm]] = {
    ENVELOPE: _form(typeMeta=_HEAD, raw=_RAW),
    f"{_RUNTIME}TypeMeta": _form(apiVersion=_TEXT, kind=_TEXT),
    f"{_RUNTIME}RawExtension": _form(_json, raw=_RAW),
    f"{_META}FieldsV1": _form(_json, raw=_RAW),
    f"{_EXTENSIONS}JSON": _form(_json, raw=_RAW),
    QUANTITY: _form(lambda message: message.get("string", "0"), string=_TEXT),
    TIME: _form(_time, seconds=_INT64, nanos=_INT32),
    MICRO_TIME: _form(_micro_time, seconds=_INT64, nanos=_INT32),
    INT_OR_STRING: _form(_int_or_string, type=_INT64, intVal=_INT32, strVal=_TEXT),
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": _form(
        lambda message: message.get("jSONSchemas", message.get("schema")),
        schema=_PROPS,
        jSONSchemas=_MANY_PROPS,
    ),
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": _form(
        lambda message: message.get("schema", message.get("allows", False)), schema=_PROPS, allows=_FLAG
    ),
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": _form(
        lambda message: message.get("property", message.get("schema")), schema=_PROPS, property=_TEXTS
    ),
}
