"""What the operator may have missed of access control, for the line that the start writes."""

import shlex

from registry.installation import command, is_default
from registry.settings import Settings, flag
from registry.storage import Tokens


async def access_notice(settings: Settings, tokens: Tokens) -> str:
    """Return one sentence without a period, "" if nothing was missed."""
    if not settings.requires_tokens or settings.oidc_issuer or await tokens.has_any():
        return ""
    return f"No access token exists yet; `{_command_for_token(settings)}` creates one"


def _command_for_token(settings: Settings) -> str:
    """Return the command that creates a token in the database that the service uses."""
    words = [*command("token"), "create", "--name", "NAME", "--scope", "write"]
    defaults = Settings()
    if not is_default(settings.data_dir):
        words += [flag("data_dir"), str(settings.data_dir.absolute())]
    if settings.database != defaults.database:
        words += [flag("database"), settings.database]
    return shlex.join(words)
