"""The runbooks that come with fathom: `library/*.yaml`."""

from __future__ import annotations

from importlib.resources import files

import yaml

from fathom.kinds.runbook import Runbook
from fathom.kinds.shape import read


def library() -> dict[str, Runbook]:
    """By name, in order."""
    folder = files("fathom.steer").joinpath("library")
    documents = [
        yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    ]
    books = [read(Runbook, document) for document in documents]
    return {book.metadata.name: book for book in sorted(books, key=lambda book: book.metadata.name)}
