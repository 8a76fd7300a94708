"""The paper again: its experiments as data, its theory with numbers, its figures and tables."""
