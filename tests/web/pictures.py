"""Pictures of the pages, in both themes, for the documentation: only where they are asked for."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

THEMES = ("Light", "Dark")  # As the button that chooses one is called.


class Pictures:
    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def take(self, page: Page, name: str) -> None:
        if self._directory is None:
            return
        for theme in THEMES:
            choose = page.get_by_role("button", name=theme, exact=True)
            if choose.count():  # Else it is the theme that is shown. Clicked without moving mouse and focus.
                choose.evaluate("button => button.click()")
            page.screenshot(path=self._directory / f"page-{name}-{theme.lower()}.png")
