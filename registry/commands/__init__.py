"""The commands of `python -m registry` beside the service itself."""
