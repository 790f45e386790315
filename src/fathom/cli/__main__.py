"""`python -m fathom.cli`: the same as `fathom`, where the script is not on the path."""

from fathom.cli.entry import main

main()
