"""Pages as Markdown: docs/cli.md, which `script/cli` writes and a test compares. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.cli.pages.page import CommandPage, Option, argument_usage, option_text, option_usage

HEAD = """# Command line

Every command of `fathom`, made by `script/cli` from the commands themselves: the same source as
`fathom COMMAND --help` and the man pages (`fathom man DIR`).

- `-o json` and `-o yaml` print what is shown as a document, `-o name` names alone, `-o wide` more. Each
  command lists those that it has. `--json` is the same as `-o json`.
- Texts are wrapped at words on a terminal, and never in a pipe. Colour is for terminals, without `NO_COLOR`.
- Exit codes: 0 good, 1 the answer is "no", 2 wrong use or environment, 130 after Ctrl-C.
- The API server is that of `--kubeconfig`, else of `$KUBECONFIG`, else of `.fathom/kubeconfig`, else
  kubectl's. The data directory is `--data`, else that of this kubeconfig, else `.fathom`. What starts a
  cluster (`up`, `serve`, `demo`, `doctor`, `store restore`) takes `--data` or its own default.
- `fathom completion --help` tells how a shell completes commands, flags, kinds, and names from the cluster.
"""


def reference(pages: Iterable[CommandPage]) -> str:
    return "\n".join([HEAD, *(section(page) for page in pages)])


def section(page: CommandPage) -> str:
    level = "#" * (1 + min(len(page.words), 2))
    blocks = [f"{level} {page.name}", f"```text\n{page.usage}\n```", *map(_escaped, page.paragraphs)]
    if page.examples:
        commands = [f"{each.command}{f'   # {each.about}' if each.about else ''}" for each in page.examples]
        blocks.append("\n".join(["```sh", *commands, "```"]))
    if page.commands:
        blocks.append(
            _table(("command", "what it does"), [(f"`{each.name}`", each.about) for each in page.commands])
        )
    rows = [(f"`{argument_usage(each)}`", option_text(each)) for each in page.arguments]
    rows += [_row(option) for option in page.options]
    if rows:
        blocks.append(_table(("option", "meaning"), rows))
    return "\n\n".join(blocks) + "\n"


def _row(option: Option) -> tuple[str, str]:
    return f"`{option_usage(option)}`", option_text(option)


def _table(heads: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "| --- | --- |"]
    return "\n".join(
        [*lines, *(f"| {name.replace('|', chr(92) + '|')} | {_escaped(about)} |" for name, about in rows)]
    )


def _escaped(text: str) -> str:
    """Outside of code, Markdown would take these for its own."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
