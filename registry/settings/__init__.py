"""The settings of the service, from command-line flags and environment variables."""

from registry.settings.parser import Parser, flag, variable
from registry.settings.settings import CORES, Settings, setting_help

__all__ = ["CORES", "Parser", "Settings", "flag", "setting_help", "variable"]
