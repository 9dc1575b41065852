"""`python -m utds` is `utds`."""

from utds.cli import main

main()
