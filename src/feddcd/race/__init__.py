"""The race: many methods on many problems, in bytes and rounds, in one command that can go on."""
