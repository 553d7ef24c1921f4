"""Resources from and to files: imports and generated data over HTTP, exports of a snapshot."""
