"""`python -m feddcd` is `feddcd`."""

from .cli import main

main()
