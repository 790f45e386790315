"""The packages, built once, and an environment outside the repository into which the wheel is installed."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.package.builds import ROOT, Packages, build


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """As `python -m build` makes them: the sdist from the clone, the wheel from the sdist."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the commands of an environment that has the wheel. The dependencies are those of the
    environment that runs the tests: they are not what is tested, and fetching them takes a minute."""
    home = tmp_path_factory.mktemp("outside") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--quiet"]
    words = ["install", "--no-deps", "--no-index", "--disable-pip-version-check", str(packages.wheel)]
    subprocess.run([*pip, *words], check=True, cwd=home, timeout=120)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shown = subprocess.run(
        [home / "bin" / "python", "-c", "import fathom; print(fathom.__file__)"],
        capture_output=True, text=True, check=True, cwd=home, timeout=60,
    )  # fmt: skip
    assert str(ROOT) not in shown.stdout
    return home / "bin"
