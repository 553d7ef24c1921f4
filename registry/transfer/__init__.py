"""Resources from and to files: imports over HTTP, exports over HTTP or from a snapshot."""
