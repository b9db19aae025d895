"""A description becomes the three resources and the commands that use them, in their order.

For hosts that start services by other means than systemd, and for trying it out. Only the
application's own port is redirected.
"""

from __future__ import annotations

import shlex

from doorward.envoy.kit.description import ENVOY_ARGUMENTS, Description, Places

__all__ = ["to_files"]


def to_files(description: Description) -> dict[str, str]:
    """Return the configurations, the policies and a text file `COMMANDS`, by file name."""
    places = Places("auth.sock", description.listen(), "unix://api.sock")
    return {
        "COMMANDS": _to_commands(description, places),
        "doorward.yaml": description.doorward_yaml(places),
        "envoy.yaml": description.envoy_yaml(places),
        **{f"policy/{policy.name}": policy.text for policy in description.policies},
    }


def _to_commands(description: Description, places: Places) -> str:
    """Return the shell commands that redirect, start and verify, in their order, with comments."""
    user = description.user
    paths = ["policy"] + ([description.secret] if description.secret else [])
    run = description.run_arguments(
        places, f"127.0.0.1:{description.diagnostic_port}", "--config-file=doorward.yaml", *paths
    )
    redirect = shlex.join(["doorward", *description.redirect_arguments(host=True)])
    return f"""\
# Made by `doorward kit --target host`. Give this folder to user {user} and run in it:

# 1. As root, before the application starts: port {description.app_port} leads to Envoy.
{redirect}

# 2. As user {user}:
{shlex.join(["doorward", *run])}

# 3. As user {user}:
envoy --config-path envoy.yaml {shlex.join(ENVOY_ARGUMENTS)}

# To check the rules, and to remove them:
{redirect} --verify
doorward envoy redirect --remove
"""
