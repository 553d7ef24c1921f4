"""The page for people: HTML, CSS and ES modules, which use the public API."""
