"""The site: it builds without a warning, loads nothing from elsewhere, and `fathom docs` serves it."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
FATHOM = [sys.executable, "-m", "fathom.cli"]
# What a browser loads by itself; a link that a person may follow is none of these.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)\""
    r"|<link\b(?![^>]*rel=\"(?:index|search|next|prev|author|copyright)\")[^>]*\bhref=\"([^\"]+)\""
    r"|@import\s+(?:url\()?['\"]?([^'\")]+)|\burl\(['\"]?([^'\")]+)"
)


@contextmanager
def served(*words: str, directory: Path = ROOT, command: list[str] = FATHOM) -> Iterator[tuple[str, int]]:
    """The address of a `fathom docs` that runs."""
    process = subprocess.Popen(
        [*command, "docs", "--port", "0", *words], cwd=directory, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            said = re.fullmatch(
                r"documentation: (http://\S+) \(Ctrl-C ends it\)\n", process.stdout.readline()
            )
            assert said
            url = urlsplit(said[1])
            yield str(url.hostname), int(url.port or 0)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130


def get(address: tuple[str, int], path: str) -> tuple[int, str, str]:
    """Status, policy and text."""
    connection = http.client.HTTPConnection(*address, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, str(answer.headers["Content-Security-Policy"]), answer.read().decode()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("docs")
    words = [
        "--builder",
        "html",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "--doctree-dir",
        str(made / "doctrees"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(ROOT / "docs"), str(made / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    shutil.copy(made / "site" / "README.html", made / "site" / "index.html")
    return made / "site"


def test_the_site_is_whole_and_served(site: Path) -> None:
    """One test: where tests are spread over processes, each would build the site."""
    every_page_is_in_the_site_and_in_its_navigation(site)
    a_browser_loads_nothing_from_elsewhere(site)
    words_are_found_without_a_server(site)
    what_is_of_others_brings_its_licence(site)
    a_running_command_serves_pages_and_no_lists_of_directories(site)


def every_page_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert [str(page) for page in sorted(pages) if not (site / page).is_file()] == []
    home = (site / "index.html").read_text()
    listed = {page for page in pages if page.parts[0] != "decisions"} - {Path("README.html")}
    assert [str(page) for page in sorted(listed) if f'href="{page}"' not in home] == []


def a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    loaded = {
        (str(file.relative_to(site)), next(filter(None, match.groups())))
        for file in files
        for match in LOADED.finditer(file.read_text())
    }
    assert len(loaded) > len(files)
    assert sorted(each for each in loaded if re.match(r"(\w+:)?//", each[1])) == []
    assert [file.name for file in site.rglob("*") if file.suffix in {".woff", ".woff2", ".ttf"}] == []


def words_are_found_without_a_server(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert index.startswith("Search.setIndex(")
    assert [word for word in ("overrid", "incid", "unschedul") if word not in index] == []  # Stems.


def what_is_of_others_brings_its_licence(site: Path) -> None:
    """The wheel passes the site on."""
    texts = {file.stem: file.read_text() for file in (site / "_static" / "licences").iterdir()}
    assert set(texts) == {"furo", "pygments", "snowballstemmer", "sphinx", "sphinx-basic-ng"}
    assert [name for name, text in texts.items() if "Copyright" not in text] == []


def a_running_command_serves_pages_and_no_lists_of_directories(site: Path) -> None:
    with served("--site", str(site)) as address:
        for path, words in {
            "/": "Your first cluster",
            "/tutorials/read-a-why.html": "Make it fail",
            "/concepts/staleness.html": "A cache is not the truth",
            "/kind-fields.html": "SchedulerOverride",
            "/search.html?q=override": "searchindex.js",
        }.items():
            status, policy, text = get(address, path)
            assert (status, policy) == (200, "default-src 'self' 'unsafe-inline' data:")
            assert words in text
        assert get(address, "/_static/")[0] == 404
        assert get(address, "/../../pyproject.toml")[0] == 404
        assert address[0] == "127.0.0.1"


def test_where_there_is_no_site_it_is_said_how_to_build_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [*FATHOM, "docs", "--site", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"fathom: error: there is no site in {tmp_path}: build it with script/docs, or read docs/README.md\n"
    )


@pytest.mark.full
def test_a_wheel_carries_the_site(site: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", ".*_cache", "__pycache__", ".hypothesis"
    )
    shutil.copytree(ROOT, clone, ignore=ignored)
    shutil.copytree(site, clone / "build" / "site")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", clone],
        check=True,
        capture_output=True,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")  # It was made from the sdist.
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    here = "import sys; sys.path.insert(0, '.'); from fathom.cli.main import run; sys.exit(run(sys.argv[1:]))"
    with served(directory=tmp_path / "installed", command=[sys.executable, "-c", here]) as address:
        assert "Make it fail" in get(address, "/tutorials/read-a-why.html")[2]


def test_without_a_display_it_prints_its_address_says_so_and_serves(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("a page")
    environment = {name: value for name, value in os.environ.items() if name not in DISPLAYS}
    words = ("docs", "--port", "0", "--open", "--site", str(tmp_path))
    with subprocess.Popen(
        [*FATHOM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            said = re.fullmatch(r"documentation: http://127.0.0.1:(\d+)/ .*\n", process.stdout.readline())
            assert said
            told = process.stderr.readline()
            assert told == "no browser with windows was found: open the address above yourself\n"
            assert get(("127.0.0.1", int(said[1])), "/")[2] == "a page"
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
