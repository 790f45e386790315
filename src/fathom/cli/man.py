"""`fathom man`: the man pages of all commands, from the same source as their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.terminal import say


def man(
    directory: Annotated[Path, Parameter(help="Directory to write to; made if it is missing.")], /
) -> None:
    """Write the man pages of all commands to DIRECTORY: fathom.1, fathom-why.1, fathom-override-create.1, …

    Prints how many there are, and how to read them.

    fathom man ~/.local/share/man/man1
    fathom man ./man1  then: man ./man1/fathom-why.1
    """
    written = write_manuals(directory)
    say(f"wrote {written} man pages to {directory}", f"read one with: man {directory / 'fathom.1'}")


def write_manuals(directory: Path) -> int:
    from fathom.cli.commands import ABOUT, FRONT_PAGE  # noqa: PLC0415
    from fathom.cli.main import make_app, version_text  # noqa: PLC0415  # See the package's docstring.
    from fathom.cli.pages.manual import front_manual, manual  # noqa: PLC0415
    from fathom.cli.pages.reading import all_words, page_of  # noqa: PLC0415

    app, version = make_app(), version_text()
    groups = {
        title: [(command.name, command.summary) for command in commands]
        for title, commands in FRONT_PAGE.items()
    }
    texts = {"fathom": front_manual(groups, ABOUT, version)}
    texts |= {"-".join(("fathom", *words)): manual(page_of(app, words), version) for words in all_words(app)}
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / f"{name}.1").write_text(text)
    return len(texts)
