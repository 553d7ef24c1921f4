"""The settings of the service, from command-line flags and environment variables."""

from registry.settings.parser import Parser, flag, variable, without_credentials
from registry.settings.settings import CORES, VARIABLES, Settings, add_setting, parse_settings

__all__ = [
    "CORES",
    "VARIABLES",
    "Parser",
    "Settings",
    "add_setting",
    "flag",
    "parse_settings",
    "variable",
    "without_credentials",
]
