"""The benchmark: the service beside a constant answer and a naive handler, and how it grows."""
