"""What a fitted model looks like to people: one HTML page."""

from .page import write

__all__ = ["write"]
