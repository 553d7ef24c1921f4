"""The error that ends the process with one line."""


class StartError(Exception):
    """The service cannot start or continue; the message is one line with reason and remedy."""
