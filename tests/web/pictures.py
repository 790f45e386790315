"""Pictures of the pages, in both themes, for the documentation: only where they are asked for."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

THEMES = ("light", "dark")


class Pictures:
    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def take(self, page: Page, name: str) -> None:
        if self._directory is None:
            return
        for theme in THEMES:
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            page.screenshot(path=self._directory / f"page-{name}-{theme}.png")
