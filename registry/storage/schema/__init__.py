"""What the database needs besides records: validators, indexes, computed fields, text blocks."""
