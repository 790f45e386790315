"""What is written about installing: names, extras, notices, the unit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.package.builds import ROOT
from tests.test_repo import tracked

EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
# `pip install` of anything that begins with our import's name; written so as not to match itself.
INSTALLED = re.compile(r"pip install (?:-\S+ )*['\"]?(fathom[\w-]*)(?:\[([\w,]+)\])?")
SYSTEMD = shutil.which("systemd-analyze")


def test_nobody_is_told_to_install_the_other_project_called_fathom_nor_an_extra_that_is_not_there() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked("*.py", "*.md", "*.toml", "script/*", "deploy/*")
        for match in INSTALLED.finditer(path.read_text())
        if match.group(1) != "fathom-control" or not set((match.group(2) or "etcd").split(",")) <= EXTRAS
    ]
    assert wrong == []


@pytest.mark.live
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the notices are of the packages for Python 3.11")
def test_the_notices_are_those_of_the_locked_packages() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "script" / "notices", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.live
@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize(
    ("name", "program"), [("fathom.service", "fathom"), ("fathom-explore.service", "nightly-explore")]
)
def test_systemd_understands_the_unit(tmp_path: Path, name: str, program: str) -> None:
    unit = (ROOT / "deploy" / name).read_text()
    started = f"ExecStart=/opt/fathom/bin/{program}"
    assert unit.count(started) == 1
    copy = tmp_path / name
    copy.write_text(unit.replace(started, f"ExecStart={Path(sys.executable).parent / 'fathom'}"))
    done = subprocess.run(
        [str(SYSTEMD), "verify", copy], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
