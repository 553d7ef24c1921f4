"""The protocol: pure functions between HTTP text and plain data, with no I/O."""
