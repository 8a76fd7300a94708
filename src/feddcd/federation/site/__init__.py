"""A site: what it answers, what may leave it, and the log of what did: all an auditor reads."""
