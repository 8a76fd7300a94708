"""A federation that survives crashes: the protocol, what is kept on disk, and what travels."""
