"""Variables out of files that pods write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.agent.objects import container, pod

from fathom.agent.host.envfiles import read_env_files, variables_of
from fathom.agent.host.environment import Surroundings, Unresolved, environment
from fathom.model.objects import Obj


def test_names_have_values_in_single_quotes_as_a_shell_would_read_them() -> None:
    text = "# first\n\n  A='1'\nB='two\nlines # no comment' # a comment\nE= 'nothing'\nA='late'"
    assert variables_of(text, "f") == {"A": "1", "B": "two\nlines # no comment", "E": ""}


@pytest.mark.parametrize("line", ["A=1", 'A="1"', "A='1''2'", "A='1'$B", "A = '1'", "A='1", "A"])
def test_anything_else_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(Unresolved, match="f, line 2: variables must be written"):
        variables_of(f"X='1'\n{line}", "f")


def wanted(path: str, key: str, **fields: bool) -> Obj:
    reference = {"volumeName": "v", "path": path, "key": key, **fields}
    return container(env=[{"name": "X", "valueFrom": {"fileKeyRef": reference}}])


def value(volumes: Path, asking: Obj) -> str | None:
    around = Surroundings(pod(), "127.130.0.2", "127.130.0.1", env_files=read_env_files(asking, volumes))
    return environment(asking, around).get("X")


def test_a_key_of_a_file_is_a_variable_and_one_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "v/deep").mkdir(parents=True)
    (tmp_path / "v/deep/env").write_text("A='1'\n")
    assert value(tmp_path, wanted("deep/env", "A")) == "1"
    for path, key in (("deep/env", "B"), ("not/there", "A")):
        assert value(tmp_path, wanted(path, key, optional=True)) is None
        with pytest.raises(Unresolved, match=f'key "{key}" not found in file "{path}"'):
            value(tmp_path, wanted(path, key))


def test_what_the_pod_itself_might_not_read_is_not_read_for_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("A='1'\n")
    (tmp_path / "v").mkdir()
    (tmp_path / "v/link").symlink_to(tmp_path / "secret")
    (tmp_path / "v/above").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "v/pipe")
    for path in ("link", "above/secret", "../secret", "pipe", "."):
        with pytest.raises(Unresolved):
            value(tmp_path, wanted(path, "A"))
