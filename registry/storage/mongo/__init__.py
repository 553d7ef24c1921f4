"""The driver: connections, commands, transactions, change streams, and batches of calls."""
