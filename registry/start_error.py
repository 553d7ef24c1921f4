"""The error that ends the process with one line."""

from registry.printable import printable


class StartError(Exception):
    """The process cannot continue.

    The message is one line with the reason and, if there is one, the remedy. Its control characters
    are escaped. status: the exit status.
    """

    status = 1

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class InvalidSetting(StartError):
    """The value of a setting is wrong."""

    status = 2
