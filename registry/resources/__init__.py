"""The domain: one file per type. To add a type, add a file and its name to this tuple."""

from registry.resources.computer import computer
from registry.resources.person import person

RESOURCES = (person, computer)
