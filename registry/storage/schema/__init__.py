"""What the database needs besides records: indexes, computed fields, text blocks."""
