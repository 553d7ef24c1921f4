"""All access to MongoDB."""

from registry.storage import thread_pool as thread_pool  # sizes the pool before motor is imported
