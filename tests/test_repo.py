"""Rules of the repository that no linter knows, as tests."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from fathom.model import resource_names

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fathom"

# Deciding code gets time, randomness and identities from `seams`; these files are the outside itself:
# live wiring, durable engines, certificates, a person's command line.
MAY_REACH_OUTSIDE = (
    "seams/",
    "bench/",
    "chaos/",
    "cli/",
    "mcp/",
    "demo/",
    "doctor.py",
    "serve.py",
    "serve/",
    "store/sqlite",
    "store/etcd",
    "api/http.py",
    "api/auth/certificates.py",
    "agent/safe_files.py",
    "agent/mount_namespace.py",
    "agent/host/",
    "agent/api_server_link.py",
    "agent/shim.py",
    "sim/foreign/answers.py",  # Names what it takes the place of; it calls none of it.
)
FORBIDDEN_CALLS = re.compile(
    r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|sleep)"
    r"|random\.\w+|secrets\.\w+|uuid\.uuid[14]|os\.urandom"
    r"|(datetime\.)*(datetime|date)\.(now|utcnow|today)"
)
# Most files import none of it, and need not be parsed.
IMPORTS_OUTSIDE = re.compile(
    r"^\s*(?:import|from)\b.*\b(?:time|random|secrets|uuid|os|datetime)\b", re.MULTILINE
)
# Building a stream from an injected seed is what the seams are for.
ALLOWED_CALLS = {"random.Random"}
# Addresses and paths of one machine have no meaning on another. Written so as not to match itself.
MACHINE = re.compile(
    r"(?<![\w.$}])/(?:work|root|tmp|home/\w+)/\w"
    r"|--(?:extra-)?index-url[ =]\s*h|--find-links[ =]\s*\S|https?://\S+/simple\b"
)
BASHISMS = re.compile(
    r"\[\[|\]\]|\bfunction \w|\blocal \w|<\(|<<<|\$'|\becho -[en]|\bsource |&>|\+=|\$\{\w+[/^,:]\d"
)
DOCSTRING = re.compile(r'(?:#.*\n|\s)*r?"""\s*[^"\s]')
CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def tracked(*patterns: str) -> list[Path]:
    """Files that belong to the repository: tracked, or new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


def called_names(tree: ast.AST) -> list[tuple[int, str]]:
    """Every call by its full name, with names that were imported under another one spelled out."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    calls = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.Attribute):
            name = dotted(node.func if isinstance(node, ast.Call) else node)
            head, _, rest = name.partition(".")
            full = aliases.get(head, head) + (f".{rest}" if rest else "")
            calls.append((node.lineno, full))
    return calls


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def reaches_outside(source: str) -> list[str]:
    if not IMPORTS_OUTSIDE.search(source):
        return []
    return sorted(
        {
            f"{line}: {name}"
            for line, name in called_names(ast.parse(source))
            if FORBIDDEN_CALLS.fullmatch(name) and name not in ALLOWED_CALLS
        }
    )


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic()",
        "from time import time\ntime()",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "import random\nrandom.choice([1])",
        "from uuid import uuid4\nuuid4()",
        "import os\nkey = os.urandom(8)",
        "import time\nfield(default_factory=time.time)",
    ],
)
def test_the_lint_sees_a_call_to_the_outside_however_it_is_imported(source: str) -> None:
    assert len(reaches_outside(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import random\nrng = random.Random(7)\nrng.choice([1])",
        "outside.clock.now_ns()",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        "def time(): ...\ntime()",
    ],
)
def test_the_lint_lets_injected_time_and_randomness_pass(source: str) -> None:
    assert reaches_outside(source) == []


def test_deciding_code_reaches_the_outside_only_through_the_seams() -> None:
    found = {
        str(path.relative_to(ROOT)): calls
        for path in sorted(SOURCE.rglob("*.py"))
        if not str(path.relative_to(SOURCE)).startswith(MAY_REACH_OUTSIDE)
        if (calls := reaches_outside(path.read_text()))
    }
    assert found == {}


def test_every_plan_is_under_the_contract_for_pure_code() -> None:
    """import-linter takes no `plan*`: the contract lists modules, and a new one must be among them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = {module for contract in contracts for module in contract.get("source_modules", ())}
    plans = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("plan*.py")
    }
    assert plans - listed == set()


def test_every_package_says_what_it_is() -> None:
    packages = sorted({path.parent for path in SOURCE.rglob("*.py")})
    silent = [
        str(package.relative_to(ROOT))
        for package in packages
        if not (package / "__init__.py").is_file()
        or not ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    ]
    assert silent == []


def test_no_public_class_name_stands_for_two_things_in_one_package() -> None:
    """Who searches for a name finds one place. Scenarios and the zoo are collections of small programs."""
    places: dict[tuple[str, str], list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        where = file.relative_to(SOURCE)
        if where.parts[:2] not in {("sim", "scenarios"), ("sim", "zoo")}:
            for name in CLASS.findall(file.read_text()):
                places.setdefault((where.parts[0], name), []).append(str(where))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_names_of_resources_that_packages_share_are_defined_once() -> None:
    """What tests something else on purpose has names of its own: the brute force over single changes."""
    shared = {value for name, value in vars(resource_names).items() if name.isupper()}
    names = "|".join(map(re.escape, sorted(shared)))
    again = re.compile(rf'^[A-Z_, ]+ = (?:"[^"]*", )*"({names})"', re.MULTILINE)
    found = {
        str(path.relative_to(SOURCE)): defined
        for path in sorted(SOURCE.rglob("*.py"))
        if "single_changes" not in path.parts
        if (defined := again.findall(path.read_text()))
    }
    assert found == {}


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sorted(SOURCE.rglob("*.py"))
        if (text := path.read_text()) and not DOCSTRING.match(text)
    ]
    assert silent == []


@pytest.mark.parametrize(
    "line", ["see /" + "work/x", "cd /" + "root/x", "--find" + "-links x", "https://host/pypi/" + "simple/"]
)
def test_the_lint_sees_paths_and_addresses_of_one_machine(line: str) -> None:
    assert MACHINE.search(line)


def test_no_file_names_a_machine_path_or_a_package_index() -> None:
    found = []
    for path in tracked():
        text = path.read_bytes().decode(errors="ignore")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in MACHINE.finditer(text)]
    assert found == []


@pytest.mark.live
@pytest.mark.parametrize("name", ["setup", "server", "test", "docs"])
def test_scripts_are_plain_posix_shell(name: str) -> None:
    script = ROOT / "script" / name
    text = script.read_text()
    assert text.startswith("#!/bin/sh\n")
    assert script.stat().st_mode & 0o111 == 0o111
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert BASHISMS.findall(code) == []
    subprocess.run([shutil.which("dash") or "sh", "-n", str(script)], check=True)


@pytest.mark.full
@pytest.mark.live
def test_setup_says_that_no_package_index_can_be_reached(tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    for name in ("script/setup", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    pip = {
        "CONFIG_FILE": "/dev/null",
        "INDEX_URL": "http://127.0.0.1:9/none",
        "RETRIES": "0",
        "FIND_LINKS": "",
    }
    done = subprocess.run(
        [tmp_path / "script" / "setup", "--runtime"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **{f"PIP_{name}": value for name, value in pip.items()}},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("script/setup: no package index reachable: check the network")


def test_links_in_documents_lead_somewhere() -> None:
    broken = []
    for document in tracked("*.md"):
        for link in LINK.findall(re.sub(r"```.*?```", "", document.read_text(), flags=re.S)):
            file = link.partition("#")[0]
            if file and "://" not in file and not file.startswith("mailto:"):
                broken += [f"{document.relative_to(ROOT)}: {link}"] * (not (document.parent / file).exists())
    assert broken == []


def test_locks_pin_every_line_and_the_runtime_lock_is_part_of_the_other() -> None:
    runtime, development = (
        set((ROOT / name).read_text().splitlines()) for name in ("requirements.lock", "requirements-dev.lock")
    )
    pinned = re.compile(r"[a-z0-9-]+==[\w.]+( ; .+)?")
    assert [line for line in runtime | development if not pinned.fullmatch(line)] == []
    # A package that one needs on fewer systems than the other has another condition there.
    assert {line.partition(" ;")[0] for line in runtime} <= {line.partition(" ;")[0] for line in development}
