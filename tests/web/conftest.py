"""One cluster for the web page's tests, people who may do this or that in it, and a real browser.

A test of a view takes `page_as`:  page = page_as("admin");  page.goto(cluster.url + "/ui/#/now")
It is logged in. What the page logs as an error fails the test, as does anything that CSP blocks.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests.cluster.living import Cluster
from tests.web.people import NOBODY, OPERATOR, TOKENS, VIEWER, allow_people
from tests.web.pictures import Pictures

IMAGES = """
"sleeper:*" = ["sleep", "1000"]
"""
NO_BROWSER = "Chromium is not installed: script/setup --browser"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("web")
    images = directory / "images.toml"
    images.write_text(IMAGES)
    data = directory / "data"
    data.mkdir(mode=0o700)
    (data / "tokens.csv").write_text(TOKENS)
    (data / "tokens.csv").chmod(0o600)
    made = Cluster(directory, "--nodes", "3", "--zones", "a,b", "--images", str(images))
    try:
        made.start()
        allow_people(made)
        yield made
        made.stop()
    finally:
        made.end()


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def namespace(cluster: Cluster, numbers: Iterator[int]) -> Iterator[str]:
    name = f"web-{next(numbers)}"
    cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cluster.ask("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the whole run: while it is there, an event loop counts as running, and asyncio.run refuses."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser without any cookie; a page's errors are the test's."""
    made = browser.new_context(ignore_https_errors=True, viewport={"width": 1400, "height": 950})
    made.set_default_timeout(30_000)
    errors: list[str] = []
    made.on("weberror", lambda error: errors.append(str(error.error)))
    made.on("console", lambda message: errors.append(message.text) if _is_error(message) else None)
    yield made
    made.close()
    assert errors == []


def _is_error(message: object) -> bool:
    """Chromium also logs every answer of 400 and more, which tests cause on purpose."""
    text = str(getattr(message, "text", ""))
    return getattr(message, "type", "") == "error" and not text.startswith("Failed to load resource")


@pytest.fixture
def page_as(cluster: Cluster, context: BrowserContext) -> Callable[..., Page]:
    """A page that is logged in: page_as("admin"), page_as("viewer"), page_as("operator", changes=True)."""

    def logged_in(who: str = "admin", *, changes: bool = False) -> Page:
        page = context.new_page()
        if who == "admin":
            link = cluster.ask("POST", "/ui/links", {"allowChanges": changes})["path"]
            page.goto(cluster.url + link)
        else:
            page.goto(f"{cluster.url}/ui/")
            page.get_by_label("Token").fill({"viewer": VIEWER, "operator": OPERATOR, "nobody": NOBODY}[who])
            page.get_by_label("Allow changes").set_checked(changes)
            page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", level=1, name="Now").wait_for()
        return page

    return logged_in


@pytest.fixture(scope="session")
def pictures(pytestconfig: pytest.Config) -> Pictures:
    """Stores docs/pictures/page-NAME-THEME.png with `pytest --pictures`; does nothing otherwise."""
    wanted = pytestconfig.getoption("--pictures")
    return Pictures(Path(__file__).parents[2] / "docs" / "pictures" if wanted else None)
