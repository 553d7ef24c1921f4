"""The embedded MongoDB server: program, data directory, process, log."""

from registry import capacity as capacity  # sizes the pool before motor is imported
