"""A description becomes systemd units for a host: redirect, decision point, Envoy.

Only the application's own port is redirected, for clients and for neighbours: a host has other
services, not least the one by which its operator comes in. The target holds the three together, and
the application is told to start after it.
"""

from __future__ import annotations

from typing import Final

from doorward.envoy.kit.description import ENVOY_ARGUMENTS, Description, Places

__all__ = ["to_files"]

_HARDENED: Final = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectClock=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077
"""


def to_files(description: Description) -> dict[str, str]:
    """Return the files of a sidecar that systemd runs, text by file name: its units and a drop-in
    for the service, a sysusers file, the configurations of Doorward and Envoy, and the policies.
    """
    name = description.name
    places = Places(
        f"/run/doorward-{name}/auth.sock",
        description.listen(),
        f"unix:///run/doorward-{name}/api.sock",
    )
    return {
        f"doorward-{name}.target": _TARGET.format(name=name),
        f"doorward-{name}-redirect.service": _to_redirect(description),
        f"doorward-{name}.service": _to_decision_point(description, places),
        f"doorward-{name}-envoy.service": _to_envoy(description),
        f"sysusers.d/doorward-{name}.conf": (
            "# Envoy's connections are not redirected: no other user may have its id.\n"
            f'u doorward-{name} {description.user} "Sidecar of {name}"\n'
        ),
        f"{name}.service.d/doorward.conf": _DROP_IN.format(name=name),
        "etc/doorward.yaml": description.doorward_yaml(places),
        "etc/envoy.yaml": description.envoy_yaml(places),
        **{f"etc/policy/{policy.name}": policy.text for policy in description.policies},
    }


_TARGET: Final = """\
# Made by `doorward kit --target systemd`. The folder etc is /etc/doorward-{name}.
[Unit]
Description=Authorization in front of {name}
Requires=doorward-{name}-redirect.service doorward-{name}.service doorward-{name}-envoy.service
After=doorward-{name}-redirect.service doorward-{name}.service doorward-{name}-envoy.service

[Install]
WantedBy=multi-user.target
"""

_DROP_IN: Final = """\
# The application does not run unless its port leads to Envoy.
[Unit]
Requires=doorward-{name}-redirect.service
After=doorward-{name}-redirect.service
"""


def _to_redirect(description: Description) -> str:
    """Return the unit that installs the redirect before the application starts, and repairs it
    every 10 s.
    """
    name = description.name
    arguments = " ".join(description.redirect_arguments(host=True))
    return f"""\
[Unit]
Description=Redirect of {name}'s port {description.app_port} to Envoy
# After the services that load the host's own rules.
After=network-pre.target nftables.service iptables.service
Before={name}.service
PartOf=doorward-{name}.target

[Service]
Type=exec
ExecStartPre=/opt/doorward/bin/doorward {arguments}
# Checks and repairs the rules every 10 s. They stay when this service ends.
ExecStart=/opt/doorward/bin/doorward {arguments} --stay
Restart=always
RestartSec=1s
# The only capability that the redirect needs.
CapabilityBoundingSet=CAP_NET_ADMIN
AmbientCapabilities=CAP_NET_ADMIN
DynamicUser=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6
SystemCallFilter=@system-service
MemoryMax=128M
{_HARDENED}"""


def _to_decision_point(description: Description, places: Places) -> str:
    """Return the unit of the decision point, with the secret as a credential."""
    name = description.name
    paths = [f"/etc/doorward-{name}/policy"]
    if description.secret:
        paths.append("%d/secret.json")
    config = f"--config-file=/etc/doorward-{name}/doorward.yaml"
    address = f"127.0.0.1:{description.diagnostic_port}"
    run = description.run_arguments(places, address, config, *paths)
    arguments = " ".join(run)
    secret = f"LoadCredential=secret.json:{description.secret}\n" if description.secret else ""
    return f"""\
[Unit]
Description=Decision point of {name}
PartOf=doorward-{name}.target

[Service]
ExecStart=/opt/doorward/bin/doorward {arguments}
{secret}User=doorward-{name}
RuntimeDirectory=doorward-{name}
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=restart
Restart=always
RestartSec=200ms
CapabilityBoundingSet=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallFilter=@system-service
MemoryMax=384M
LimitNOFILE=65536
{_HARDENED}"""


def _to_envoy(description: Description) -> str:
    """Return the unit of Envoy."""
    name, arguments = description.name, " ".join(ENVOY_ARGUMENTS)
    return f"""\
[Unit]
Description=Envoy in front of {name}
Wants=doorward-{name}.service
After=doorward-{name}.service
PartOf=doorward-{name}.target

[Service]
ExecStart=/usr/local/bin/envoy --config-path /etc/doorward-{name}/envoy.yaml {arguments}
User=doorward-{name}
Restart=always
RestartSec=200ms
CapabilityBoundingSet=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallFilter=@system-service
MemoryMax=640M
LimitNOFILE=65536
{_HARDENED}"""
