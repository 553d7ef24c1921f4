"""The embedded MongoDB server: program, data directory, process, supervision, log."""

from registry import thread_pool as thread_pool  # sizes the pool before motor is imported
