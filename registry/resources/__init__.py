"""The domain: one file a type. A new type is a new file and a name in this tuple."""

from registry.resources.computer import computer
from registry.resources.person import person

RESOURCES = (person, computer)
