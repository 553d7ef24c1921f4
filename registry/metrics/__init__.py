"""The metrics of the service: what is counted, the sums over processes, and their text format."""
