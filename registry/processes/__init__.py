"""The processes of the service: event loop, signals, supervisor and workers."""
