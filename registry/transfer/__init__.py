"""Resources from files, and changes to other programs, over HTTP."""
