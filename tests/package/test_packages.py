"""Wheel and sdist: what is in them, and that what is in them runs where no repository is."""

from __future__ import annotations

import signal
import ssl
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from tests.package.builds import ROOT, Packages, build, cluster, run
from tests.test_repo import MACHINE, tracked

import fathom

pytestmark = pytest.mark.live

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"fathom_control-{fathom.__version__}"
NOT_IN_THE_SDIST = (".ci/",)
ADDED_BY_THE_BUILD = {"PKG-INFO"}
SITE = ROOT / "build" / "site"  # Where `script/docs` was run: hatch_build.py adds it.


def test_the_version_is_the_same_everywhere() -> None:
    assert PROJECT["version"] == fathom.__version__


def site_below(place: str) -> set[str]:
    built = SITE.rglob("*") if (SITE / "index.html").is_file() else ()
    return {f"{place}/{path.relative_to(SITE)}" for path in built if path.is_file()}


def test_the_wheel_holds_every_file_of_the_source_and_nothing_else(packages: Packages) -> None:
    source = ROOT / "src"
    wanted = {str(path.relative_to(source)) for path in tracked("src/fathom")}
    with zipfile.ZipFile(packages.wheel) as wheel:
        names = set(wheel.namelist())
    metadata = {f"{NAME}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    assert names == wanted | metadata | site_below("fathom/site") | {
        f"{NAME}.dist-info/licenses/LICENSE",
        f"{NAME}.dist-info/licenses/THIRD-PARTY.md",
    }


def test_the_sdist_holds_the_files_of_the_repository_and_nothing_else(packages: Packages) -> None:
    wanted = {str(path.relative_to(ROOT)) for path in tracked()}
    with tarfile.open(packages.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    kept = {name for name in wanted if not name.startswith(NOT_IN_THE_SDIST)}
    assert names == kept | site_below("build/site") | ADDED_BY_THE_BUILD


def test_the_same_source_gives_the_same_bytes(packages: Packages, tmp_path: Path) -> None:
    """The first wheel was built from the sdist, this one from the clone."""
    again = build(tmp_path, "--wheel", "--sdist")
    assert again.wheel.read_bytes() == packages.wheel.read_bytes()
    assert again.sdist.read_bytes() == packages.sdist.read_bytes()


def test_the_packages_name_no_machine(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as wheel:
        metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode()
        recorded = wheel.read(f"{NAME}.dist-info/RECORD").decode()
    with tarfile.open(packages.sdist) as sdist:
        owners = {(member.uid, member.gid, member.uname, member.gname) for member in sdist.getmembers()}
    assert (MACHINE.findall(metadata + recorded), owners) == ([], {(0, 0, "", "")})


def test_the_extras_are_those_that_the_pages_name(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as wheel:
        metadata = Parser().parsestr(wheel.read(f"{NAME}.dist-info/METADATA").decode())
    assert (metadata["Name"], set(metadata.get_all("Provides-Extra") or ())) == (
        "fathom-control",
        {"etcd", "mcp", "otel", "runbooks", "test"},
    )


def test_the_installed_wheel_runs_a_cluster_outside_the_repository(installed: Path, tmp_path: Path) -> None:
    with cluster(installed, tmp_path) as process:
        nodes = run(installed, tmp_path, "get", "nodes", "-o", "name")
        assert nodes.stdout == "node/node-1\nnode/node-2\nnode/node-3\n", nodes.stderr
        why = run(installed, tmp_path, "why")
        assert (why.returncode, why.stdout, why.stderr) == (0, "nothing is stuck\n", "")
        assert "recover-workload-from-stale-zone" in run(installed, tmp_path, "runbook", "list").stdout
        link = run(installed, tmp_path, "page").stdout
        assert "/ui/#login=" in link
        trusting = ssl.create_default_context(cafile=str(tmp_path / ".fathom" / "pki" / "ca.crt"))
        for name in ("", "main.js", "style.css", "views/now.js"):
            with urllib.request.urlopen(link.partition("#")[0] + name, context=trusting) as answer:
                assert answer.status == 200
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest.splitlines()[-1]) == (0, "stopped agents, gateway, deciders, api"), (
        errors
    )
    version = run(installed, tmp_path, "version")
    assert version.stdout == f"fathom {fathom.__version__} (Python {sys.version.split()[0]})\n"
