"""Which data directories this fathom uses, upgrades and refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom import __version__
from fathom.cli.main import run
from fathom.data_format import FORMAT, MARKER, UnknownFormat, adopt, check
from fathom.doctor import Examined, examine
from fathom.model.body import Body
from fathom.private_files import OURS
from fathom.store.open import open_store
from fathom.store.protocol import Committed, Put
from fathom.store.unusable import StoreForeign

OURS_NOW = f'{{"format":{FORMAT},"fathom":"{__version__}"}}\n'
NEWER = '{"format":99,"fathom":"9.1.0","unheard-of":true}\n'
REFUSED = (
    "{data} was written by fathom 9.1.0 (format 99), and fathom {ours} reads only up to format {format}: "
    "use fathom 9.1.0 or newer, or another directory"
)


async def _write(data: Path, key: str) -> None:
    store = await open_store(f"sqlite:{data}")
    assert isinstance(await store.commit((), (Put(key, Body({"kind": "ConfigMap"})),)), Committed)
    await store.close()


async def _keys(data: Path) -> list[str]:
    store = await open_store(f"sqlite:{data}")
    page = await store.range("/k/")
    await store.close()
    return [entry.key for entry in page.entries]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What a server has left that ran once."""
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    asyncio.run(_write(directory, "/k/1"))
    return directory


@pytest.fixture
def newer(data: Path) -> Path:
    (data / MARKER).write_text(NEWER)
    return data


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def refusal(data: Path) -> str:
    return REFUSED.format(data=data, ours=__version__, format=FORMAT)


def test_a_new_store_marks_its_directory(data: Path) -> None:
    assert (data / MARKER).read_text() == OURS_NOW
    assert (data / MARKER).stat().st_mode & 0o077 == 0
    assert MARKER in OURS


def test_a_directory_without_a_marker_is_upgraded_and_loses_nothing(data: Path) -> None:
    (data / MARKER).unlink()
    assert check(data) == 0
    assert asyncio.run(_keys(data)) == ["/k/1"]
    assert (data / MARKER).read_text() == OURS_NOW


def test_a_marker_of_an_older_fathom_of_this_format_stays(data: Path) -> None:
    older = f'{{"format":{FORMAT},"fathom":"0.0.9"}}\n'
    (data / MARKER).write_text(older)
    assert asyncio.run(_keys(data)) == ["/k/1"]
    assert (data / MARKER).read_text() == older


def test_a_store_of_a_newer_format_is_not_opened(newer: Path) -> None:
    before = content(newer)
    with pytest.raises(StoreForeign) as refused:
        asyncio.run(open_store(f"sqlite:{newer}"))
    assert (str(refused.value), content(newer)) == (refusal(newer), before)


@pytest.mark.parametrize("text", ["", "1", '{"format":"one","fathom":"x"}', '{"fathom":"0.1.0"}', "\x00"])
def test_a_damaged_marker_is_not_taken_for_an_older_directory(data: Path, text: str) -> None:
    (data / MARKER).write_text(text)
    with pytest.raises(UnknownFormat) as refused:
        adopt(data)
    assert refused.value.problem.startswith(f"{data / MARKER} is damaged (")
    assert refused.value.advice == f"restore it; this fathom would write {OURS_NOW.strip()}"
    assert (data / MARKER).read_text() == text


@pytest.mark.live
@pytest.mark.parametrize(
    "words",
    [
        ("up", "--port", "0", "--data", "DATA"),
        ("up", "--new-store", "--port", "0", "--data", "DATA"),
        ("down", "--data", "DATA"),
        ("serve", "api", "--port", "0", "--data", "DATA"),
        ("serve", "api", "--port", "0", "--store", "memory:", "--data", "DATA"),
        ("serve", "api", "--port", "0", "--new-store", "--data", "DATA"),
        ("serve", "agent", "--node", "n", "--kubeconfig", "KUBECONFIG", "--data", "DATA"),
        ("serve", "scheduler", "--kubeconfig", "KUBECONFIG", "--data", "DATA"),
        ("serve", "controllers", "--kubeconfig", "KUBECONFIG", "--data", "DATA"),
        ("serve", "gateway", "--kubeconfig", "KUBECONFIG", "--data", "DATA"),
        ("serve", "deciders", "--scheduler", "KUBECONFIG", "--controllers", "KUBECONFIG", "--data", "DATA"),
        ("store", "backup", "COPY", "--data", "DATA"),
        ("store", "restore", "COPY", "--data", "DATA"),
        ("store", "verify", "DATA"),
        ("record", "status", "--data", "DATA"),
        ("record", "keep", "--around", "pod/x", "--for", "1m", "--data", "DATA"),
        ("record", "export", "COPY", "--data", "DATA"),
        ("record", "export", "COPY", "--around", "pod/x", "--data", "DATA"),
        ("decisions", "--data", "DATA"),
    ],
    ids=" ".join,
)
def test_every_command_refuses_a_newer_directory_in_one_line_and_leaves_it_as_it_is(
    newer: Path, tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    places = {"DATA": str(newer), "COPY": str(tmp_path / "copy"), "KUBECONFIG": str(kubeconfig)}
    before = content(newer)
    assert run([places.get(word, word) for word in words]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"fathom: error: {refusal(newer)}\n")
    assert content(newer) == before
    assert not (tmp_path / "copy").exists()


# Of a server that nobody asks: the directory is looked at first.
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: x, user: {}}]
"""


def test_a_restored_store_is_marked(data: Path, tmp_path: Path) -> None:
    copy, other = tmp_path / "copy", tmp_path / "other"
    assert run(["store", "backup", str(copy), "--data", str(data)]) == 0
    assert run(["store", "restore", str(copy), "--data", str(other)]) == 0
    assert (other / MARKER).read_text() == OURS_NOW


@pytest.mark.live
def test_doctor_says_which_format_a_directory_has(newer: Path, tmp_path: Path) -> None:
    def found(data: Path) -> tuple[str, str, str]:
        findings = {finding.check: finding for finding in examine(Examined(data, "127.0.0.1", 0))}
        return findings["data"].state, findings["data"].found, findings["data"].advice

    problem, _, advice = refusal(newer).rpartition(": ")
    assert found(newer) == ("failure", problem, advice)
    (newer / MARKER).write_text(OURS_NOW)
    assert found(newer) == ("ok", f"{newer} has format {FORMAT}", "")
    assert found(tmp_path / "none") == ("ok", f"{tmp_path / 'none'} is new, or from before format 1", "")
