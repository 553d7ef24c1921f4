"""The commands of `registry` and `python -m registry`."""
