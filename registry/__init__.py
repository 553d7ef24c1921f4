"""The Person and Computer Registry: a JSON:API 1.0 service for persons and their computers."""

__version__ = "1.0.0"
