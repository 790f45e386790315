"""Puts the built site of the documentation into wheel and sdist, for `fathom docs`. `script/docs` builds it
before a release; a package without it works, and `fathom docs` says what is missing."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SITE = "build/site"


class SiteHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and Path(self.root, SITE, "index.html").is_file():
            # A wheel is made from the sdist: there the site stays where it is in a clone.
            build_data["force_include"][SITE] = SITE if self.target_name == "sdist" else "fathom/site"
