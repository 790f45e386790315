"""`fathom completion`: the script by which a shell completes commands, flags, and names from the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from fathom.cli.shell_scripts import SCRIPTS
from fathom.terminal import say_exactly


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Your shell.")], /) -> None:
    """Print a script by which a shell completes commands, flags, kinds, and names of objects of the cluster.

    For every new shell, add a command to its start-up file: `source <(fathom completion bash)` to ~/.bashrc,
    `source <(fathom completion zsh)` to ~/.zshrc after compinit, `fathom completion fish | source` to
    ~/.config/fish/config.fish. `kubectl fathom` is completed by kubectl's own script: nothing is to be done.

    fathom completion bash > ~/.local/share/bash-completion/completions/fathom
    fathom completion zsh > ~/.zfunc/_fathom
    fathom completion fish > ~/.config/fish/completions/fathom.fish
    """
    say_exactly(SCRIPTS[shell])
