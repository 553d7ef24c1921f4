"""What operators do with a whole database: back up, restore, check."""
