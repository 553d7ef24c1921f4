"""The embedded MongoDB server."""
