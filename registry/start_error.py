"""The error that ends the process with one line."""


class StartError(Exception):
    """The process cannot continue.

    The message is one line with the reason and, if there is one, the remedy.
    """
