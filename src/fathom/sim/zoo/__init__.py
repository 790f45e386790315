"""Known bugs, put back: each file is a patch (`--patch FILE.py`) that the simulator must find.

A patch is a Python file that changes code when it is loaded. Its docstring says what the bug is; two
constants say where it lives and what it breaks:

    SCENARIOS = ("informer-relists",)
    BREAKS = "informer revision never goes back"

`fathom sim zoo` reads them without loading the file.
"""
