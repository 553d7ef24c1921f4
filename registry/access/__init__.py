"""Access control: who sends a request, and what it may do."""
