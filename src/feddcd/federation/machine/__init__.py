"""The programs, keys and folders of a federation on one machine."""
