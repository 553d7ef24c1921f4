"""All that touches MongoDB."""
