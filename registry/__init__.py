"""The Person and Computer Registry: persons, computers and who owns what, over JSON:API 1.0."""

__version__ = "1.0.0"
