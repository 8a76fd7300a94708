"""The command line: `app` lists the commands; what a command does is imported when called."""

from .app import main as main
