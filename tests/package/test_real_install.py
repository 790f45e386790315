"""A real `pip install` of the wheel, dependencies and all: who may use it, and what it says about extras."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.package.builds import ROOT, Packages, as_user, cluster, environment, run
from tests.test_repo import MACHINE

pytestmark = [pytest.mark.live, pytest.mark.full]

NOBODY = 65534
PROTECTED = """
for each in /usr /etc /boot; do mount --bind $each $each; mount -o remount,bind,ro $each; done
for home in /home /root; do mount -t tmpfs -o ro,mode=0 none $home; done
exec "$@"
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: short}
spec:
  restartPolicy: Never
  containers: [{name: main, image: sh, command: [sh, -c, "echo from a pod"]}]
"""


def reachable_python() -> str:
    """One that every user may run, if there is one: that of the tests may lie in somebody's home."""
    check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    for python in (shutil.which("python3", path="/usr/local/bin:/usr/bin") or "", sys.executable):
        if python and subprocess.run([python, "-c", check], check=False, capture_output=True).returncode == 0:
            return python
    return sys.executable


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that every user can reach, which pytest's own is not."""
    directory = Path(tempfile.mkdtemp(prefix="fathom-install-", dir="/var/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def installed(packages: Packages, place: Path) -> Path:
    """The directory of the commands; the wheel without any extra."""
    subprocess.run([reachable_python(), "-m", "venv", place / "venv"], check=True, timeout=120)
    pip_install(place / "venv" / "bin", str(packages.wheel))
    return place / "venv" / "bin"


def pip_install(bin_directory: Path, what: str) -> None:
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-input", what]
    done = subprocess.run(
        [bin_directory / "pip", *words], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("extra", "words", "line"),
    [
        (
            "etcd",
            ("up", "--port", "0", "--store", "etcd://127.0.0.1:1"),
            "cannot open a store at 'etcd://127.0.0.1:1': etcd support is not installed; install it with: ",
        ),
        (
            "otel",
            ("up", "--port", "0", "--traces", "http://127.0.0.1:1"),
            "--traces: traces need OpenTelemetry: ",
        ),
        ("runbooks", ("demo", "risk-api", "--yes"), "conditions of runbooks need a library: "),
    ],
)
def test_without_an_extra_one_line_says_how_to_install_it(
    installed: Path, tmp_path: Path, extra: str, words: tuple[str, ...], line: str
) -> None:
    done = run(installed, tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"fathom: error: {line}pip install 'fathom-control[{extra}]'\n",
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_can_write_neither_the_install_nor_a_home_runs_a_pod(installed: Path, place: Path) -> None:
    work = place / "work"
    work.mkdir()
    os.chown(work, NOBODY, NOBODY)
    probe = subprocess.run([installed / "python", "-c", ""], check=False, cwd="/", **as_user(NOBODY))
    if probe.returncode:
        pytest.skip("no Python here that every user may run")
    before = files_of(place / "venv")
    (work / "pod.yaml").write_text(POD)
    examined = run(installed, work, "doctor", "--port", "0", "-o", "json", user=NOBODY)
    found = {each["check"]: each for each in json.loads(examined.stdout)}
    assert (examined.returncode, found["cgroups"]["state"]) == (0, "warning")
    assert found["cgroups"]["advice"].startswith("run as root, which may make cgroups")
    with cluster(installed, work, "--nodes", "1", user=NOBODY):
        a_pod_runs(installed, work, user=NOBODY)
    assert files_of(place / "venv") == before


def a_pod_runs(installed: Path, work: Path, *, user: int = 0) -> None:
    created = run(installed, work, "apply", "-f", "pod.yaml", user=user)
    assert created.stdout == "pod/short created\n", created.stderr
    deadline_s = time.monotonic() + 60
    phase = ("get", "pod", "short", "-o", "jsonpath={.status.phase}")
    while (found := run(installed, work, *phase, user=user).stdout) != "Succeeded":
        assert time.monotonic() < deadline_s, found
        time.sleep(0.2)
    assert run(installed, work, "logs", "short", user=user).stdout == "from a pod\n"


@pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("setpriv") and shutil.which("unshare")),
    reason="only root can give rights up, with setpriv and unshare",
)
def test_a_pod_runs_with_the_rights_that_the_unit_of_systemd_leaves(installed: Path, place: Path) -> None:
    """Its capabilities, no new ones, a read-only system and no homes; the rest only systemd can do."""
    unit = (ROOT / "deploy" / "fathom.service").read_text()
    assert {"NoNewPrivileges=yes", "ProtectSystem=full", "ProtectHome=yes"} <= set(unit.splitlines())
    (line,) = re.findall(r"^CapabilityBoundingSet=(.+)$", unit, flags=re.M)
    kept = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in line.split())
    work = place / "unit"
    work.mkdir(mode=0o700)
    (work / "pod.yaml").write_text(POD)
    below = ["unshare", "--mount", "sh", "-ec", PROTECTED, "sh"]
    below += ["setpriv", "--bounding-set", f"-all,{kept}", "--no-new-privs"]
    with cluster(installed, work, "--nodes", "1", below=below):
        a_pod_runs(installed, work)


def files_of(directory: Path) -> dict[str, int]:
    """Every file with the time of its last change."""
    return {str(path): path.lstat().st_mtime_ns for path in directory.rglob("*")}


def test_the_line_about_an_extra_works_as_it_stands(installed: Path, tmp_path: Path) -> None:
    """It changes the install: what follows has this extra."""
    pip_install(installed, "fathom-control[runbooks]")
    code = "from fathom.steer.conditions import need_library; need_library()"
    subprocess.run([installed / "python", "-c", code], check=True, cwd=tmp_path, env=environment(installed))


@pytest.mark.parametrize(
    ("page", "passed"),
    [("testing-your-controller.md", "20 passed"), ("testing-your-operator.md", "10 passed")],
)
def test_a_page_about_tests_works_as_it_is_typed(
    installed: Path, tmp_path: Path, page: str, passed: str
) -> None:
    """In a clone, with what the page installs and nothing else."""
    text = (ROOT / "docs" / page).read_text()
    (typed, *_) = re.findall(r"^```sh\n(pip install .*?)^```$", text, flags=re.M | re.S)
    own = {"HOME": str(tmp_path), "PATH": f"{installed}:{os.defpath}"}
    done = subprocess.run(
        ["sh", "-ec", typed], cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, passed in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_bill_of_materials_names_every_locked_package_and_no_machine(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    subprocess.run([ROOT / "script" / "sbom", file], check=True, timeout=900, capture_output=True)
    text = file.read_text()
    bill = json.loads(text)
    named = {component["name"].lower().replace("_", "-") for component in bill["components"]}
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), flags=re.M))
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "fathom-control")
    assert named <= locked
    assert {"numpy", "aetcd", "cel-expr-python", "opentelemetry-sdk"} <= named
    assert (MACHINE.findall(text), "file:" in text, str(ROOT) in text) == ([], False, False)
