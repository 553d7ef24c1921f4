"""What a type of resource is: its attributes, links, validation and serialization."""
