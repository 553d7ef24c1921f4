"""The settings of the service, from command-line flags and environment variables."""

from registry.settings.parser import Parser, flag, variable
from registry.settings.settings import CORES, Settings
from registry.settings.sources import parse_settings, setting_help

__all__ = ["CORES", "Parser", "Settings", "flag", "parse_settings", "setting_help", "variable"]
