"""Flags of `serve` and `up` from the environment and from a file: which wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.cli.main import run


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The error of a command that must fail."""
    assert run(words) != 0
    return capsys.readouterr().err.removeprefix("fathom: error: ").strip()


# A store that cannot be opened tells where its address came from.
BAD = "cannot open a store at {!r}: give memory:, sqlite:DIR or etcd://HOST:PORT[,HOST:PORT]"


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "fathom.toml"
    file.write_text('[serve.api]\nstore = "of:file"\nport = 0\n\n[serve.scheduler]\nshard = "0/2"\n')
    serve = ("serve", "api", "--port", "0")
    assert told(capsys, *serve, "--config", str(file)) == BAD.format("of:file")
    assert told(capsys, *serve, f"--config={file}") == BAD.format("of:file")
    monkeypatch.setenv("FATHOM_CONFIG", str(file))
    assert told(capsys, *serve) == BAD.format("of:file")
    monkeypatch.setenv("FATHOM_SERVE_API_STORE", "of:environment")
    assert told(capsys, *serve) == BAD.format("of:environment")
    assert told(capsys, *serve, "--store", "of:flag") == BAD.format("of:flag")


def test_what_names_no_flag_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "fathom.toml"
    file.write_text('[serve.api]\nstroe = "of:file"\n')
    assert told(capsys, "serve", "api", "--config", str(file)).startswith('Unknown option: "[stroe]" from ')
    file.write_text("[serve.api\n")
    assert told(capsys, "serve", "api", "--config", str(file)).startswith("TOMLDecodeError: Expected ']'")
    assert told(capsys, "serve", "api", "--config", "none.toml") == (
        "none.toml does not exist: --config and FATHOM_CONFIG name a TOML file"
    )
    assert told(capsys, "serve", "api", "--config") == "--config needs the name of a TOML file"
    monkeypatch.setenv("FATHOM_SERVE_API_STROE", "x")
    assert told(capsys, "serve", "api").startswith(
        "FATHOM_SERVE_API_STROE names no flag of `fathom serve api`; those are FATHOM_SERVE_API_ADMISSION, "
    )


def test_other_commands_take_flags_from_the_command_line_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FATHOM_VERSION_OUTPUT", "nonsense")
    assert run(["version"]) == 0
