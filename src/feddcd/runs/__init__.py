"""A run as data, from its settings to its folder: what `feddcd.run` and `compare` do."""
