"""`python -m feddcd` is `feddcd`."""

from .cli.app import main

main()
