"""axe, in the browser: what it finds that keeps somebody from using a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SERIOUS = frozenset({"serious", "critical"})


def serious_faults(page: Page, theme: str) -> list[str]:
    """Faults that axe calls serious or critical, with where they are. `theme`: light or dark."""
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    results = Axe().run(page).response
    return [
        f"{fault['id']}: {node['target']}: {node['failureSummary']}"
        for fault in results["violations"]
        if fault["impact"] in SERIOUS
        for node in fault["nodes"]
    ]
