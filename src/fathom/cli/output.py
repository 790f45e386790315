"""`-o`: the same flag, the same error, and the same documents wherever answers or objects are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from fathom.cli.problem import Problem
from fathom.terminal import say_document, say_json

DOCUMENTS = frozenset({"json", "yaml"})


class Formats:
    """Which values -o takes. One that ends in `=…` stands for all that begin so: `jsonpath=TEMPLATE`."""

    def __init__(self, *formats: str) -> None:
        self.formats: Sequence[str] = formats

    def __call__(self, type_: Any, value: Any) -> None:
        """Raises Problem."""
        starts = tuple(f"{name.partition('=')[0]}=" for name in self.formats if "=" in name)
        if value and value not in self.formats and not str(value).startswith(starts or "\0"):
            raise Problem(f"-o must be one of {', '.join(self.formats)}, not {value!r}")


def output_parameter(*formats: str, help: str = "") -> Parameter:  # noqa: A002 - cyclopts' word
    """For `output: Annotated[str, output_parameter("json", "yaml")] = ""`."""
    return Parameter(
        name=("--output", "-o"),
        validator=Formats(*formats),
        show_default=False,
        help=help or "The answer as a document.",
    )


AsJson = Annotated[bool, Parameter(name="--json", negative=(), help="The same as -o json.")]
Output = Annotated[str, output_parameter("json", "yaml")]  # Of commands that print one answer.
FileOutput = Annotated[  # Of commands whose answer is about files.
    str,
    output_parameter("json", "yaml", "name", help="json, yaml: the answer as a document. name: the file."),
]


def document_format(output: str, *, as_json: bool) -> str:
    """Of commands that have --json too; '' for lines."""
    return output or ("json" if as_json else "")


def print_document(document: Any, output: str) -> None:
    """An answer as JSON or YAML; both have the same fields."""
    import msgspec  # noqa: PLC0415  # See the package's docstring.

    from fathom.cli.documents import as_yaml  # noqa: PLC0415

    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2).decode())
    else:
        say_document(as_yaml(msgspec.to_builtins(document, enc_hook=str), sort_keys=False))
