"""`python -m anyorder` is `anyorder`."""

from anyorder.cli import main

main()
