"""What each route of the engine API takes as its JSON body: Go's structs, field by field.

The names are those of the API's JSON, of all versions from 20.10 on, and the few of the
specification that the daemon itself does not know. What only an admin may send (the settings of a
swarm, of a node, of a plugin) is `LOOSE`.
"""

from __future__ import annotations

from typing import Final

from doorward.docker.request.schema import (
    INTEGER,
    LOOSE,
    STRING,
    WORDS,
    Array,
    Map,
    Struct,
    Type,
    fold,
    struct,
)

__all__ = [
    "ANY",
    "AUTH",
    "CHECKPOINT",
    "CONFIG",
    "CONTAINER_CREATE",
    "CONTAINER_UPDATE",
    "EXEC_CREATE",
    "EXEC_START",
    "HOST_CONFIG",
    "NETWORK_CONNECT",
    "NETWORK_CREATE",
    "NETWORK_DISCONNECT",
    "PRIVILEGES",
    "SECRET",
    "SERVICE",
    "SETTINGS",
    "SWARM_INIT",
    "SWARM_JOIN",
    "SWARM_SPEC",
    "SWARM_UNLOCK",
    "VOLUME_CREATE",
]

ANY: Final[Type] = LOOSE
SETTINGS: Final[Type] = Array(STRING)

_RATES: Final = Array(struct("Throttle", strings="Path", integers="Rate"))
_ULIMITS: Final = Array(struct("Ulimit", strings="Name", integers="Hard Soft"))
_RESTART: Final = struct("RestartPolicy", strings="Name", integers="MaximumRetryCount")
_DEVICES: Final = Array(
    struct("Device", strings="PathOnHost PathInContainer CgroupPermissions"),
)
_DEVICE_REQUESTS: Final = Array(
    struct(
        "DeviceRequest",
        strings="Driver",
        integers="Count",
        lists="DeviceIDs",
        maps="Options",
        Capabilities=Array(Array(STRING)),
    )
)
_MOUNTS: Final = Array(
    struct(
        "Mount",
        strings="Type Source Target Consistency",
        booleans="ReadOnly",
        BindOptions=struct(
            "BindOptions",
            strings="Propagation",
            booleans="NonRecursive CreateMountpoint ReadOnlyNonRecursive ReadOnlyForceRecursive",
        ),
        VolumeOptions=struct(
            "VolumeOptions",
            strings="Subpath",
            booleans="NoCopy",
            maps="Labels",
            DriverConfig=struct("Driver", strings="Name", maps="Options"),
        ),
        ImageOptions=struct("ImageOptions", strings="Subpath"),
        TmpfsOptions=struct("TmpfsOptions", integers="SizeBytes Mode", Options=LOOSE),
        ClusterOptions=LOOSE,
    )
)
_HEALTHCHECK: Final = struct(
    "HealthConfig", lists="Test", integers="Interval Timeout StartPeriod StartInterval Retries"
)

_RESOURCES: Final = struct(
    "Resources",
    strings="CgroupParent CpusetCpus CpusetMems",
    integers="""
        CpuShares Memory NanoCpus BlkioWeight CpuPeriod CpuQuota CpuRealtimePeriod
        CpuRealtimeRuntime KernelMemory KernelMemoryTCP MemoryReservation MemorySwap
        MemorySwappiness PidsLimit CpuCount CpuPercent IOMaximumIOps IOMaximumBandwidth
        MaximumIOps MaximumIOBps
    """,
    booleans="OomKillDisable",
    lists="DeviceCgroupRules",
    BlkioWeightDevice=Array(struct("WeightDevice", strings="Path", integers="Weight")),
    BlkioDeviceReadBps=_RATES,
    BlkioDeviceWriteBps=_RATES,
    BlkioDeviceReadIOps=_RATES,
    BlkioDeviceWriteIOps=_RATES,
    Devices=_DEVICES,
    DeviceRequests=_DEVICE_REQUESTS,
    Ulimits=_ULIMITS,
)

_HOST_CONFIG_FIELDS: Final = struct(
    "HostConfig",
    strings="""
        ContainerIDFile NetworkMode VolumeDriver CgroupnsMode IpcMode Cgroup PidMode UTSMode
        UsernsMode Runtime Isolation
    """,
    booleans="AutoRemove Privileged PublishAllPorts ReadonlyRootfs Init",
    integers="OomScoreAdj ShmSize",
    lists="""
        Binds VolumesFrom Dns DnsOptions DnsSearch ExtraHosts GroupAdd Links SecurityOpt
        MaskedPaths ReadonlyPaths
    """,
    maps="StorageOpt Tmpfs Sysctls Annotations",
    Capabilities=WORDS,
    CapAdd=WORDS,
    CapDrop=WORDS,
    ConsoleSize=Array(INTEGER),
    LogConfig=struct("LogConfig", strings="Type", maps="Config"),
    Mounts=_MOUNTS,
    PortBindings=Map(Array(struct("PortBinding", strings="HostIp HostPort"))),
    RestartPolicy=_RESTART,
).fields

HOST_CONFIG: Final = Struct("HostConfig", {**_HOST_CONFIG_FIELDS, **_RESOURCES.fields})

_ENDPOINT: Final = struct(
    "EndpointSettings",
    strings="""
        MacAddress NetworkID EndpointID Gateway IPAddress IPv6Gateway GlobalIPv6Address
    """,
    integers="IPPrefixLen GlobalIPv6PrefixLen GwPriority",
    lists="Links Aliases DNSNames",
    maps="DriverOpts",
    IPAMConfig=struct(
        "EndpointIPAMConfig", strings="IPv4Address IPv6Address", lists="LinkLocalIPs"
    ),
)

CONFIG: Final = struct(
    "Config",
    strings="Hostname Domainname User Image WorkingDir MacAddress StopSignal",
    booleans="""
        AttachStdin AttachStdout AttachStderr Tty OpenStdin StdinOnce ArgsEscaped NetworkDisabled
    """,
    integers="StopTimeout",
    lists="Env OnBuild",
    maps="Labels",
    Cmd=WORDS,
    Entrypoint=WORDS,
    Shell=WORDS,
    ExposedPorts=Map(LOOSE),
    Volumes=Map(LOOSE),
    Healthcheck=_HEALTHCHECK,
)

# The daemon reads the fields of HostConfig at the top of the body too, when it has no HostConfig
# or for a few of them always.
CONTAINER_CREATE: Final = Struct(
    "ContainerCreate",
    {
        **CONFIG.fields,
        "HostConfig": HOST_CONFIG,
        "NetworkingConfig": struct("NetworkingConfig", EndpointsConfig=Map(_ENDPOINT)),
    },
    refused=frozenset({fold(name) for name in HOST_CONFIG.fields} | {"cpuset"})
    - {fold(name) for name in CONFIG.fields},
)
CONTAINER_UPDATE: Final = Struct("Update", {**_RESOURCES.fields, "RestartPolicy": _RESTART})

EXEC_CREATE: Final = struct(
    "ExecConfig",
    strings="User DetachKeys WorkingDir Container",
    booleans="Privileged Tty AttachStdin AttachStderr AttachStdout Detach",
    lists="Env",
    Cmd=WORDS,
    ConsoleSize=Array(INTEGER),
)
CHECKPOINT: Final = struct(
    "CheckpointCreate", strings="CheckpointID CheckpointDir", booleans="Exit"
)
EXEC_START: Final = struct("ExecStart", booleans="Detach Tty", ConsoleSize=Array(INTEGER))

VOLUME_CREATE: Final = struct(
    "VolumeCreate", strings="Driver Name", maps="DriverOpts Labels", ClusterVolumeSpec=LOOSE
)

NETWORK_CREATE: Final = struct(
    "NetworkCreate",
    strings="Name Driver Scope",
    booleans="""
        CheckDuplicate EnableIPv4 EnableIPv6 Internal Attachable Ingress ConfigOnly
    """,
    maps="Options Labels",
    IPAM=struct(
        "IPAM",
        strings="Driver",
        maps="Options",
        Config=Array(
            struct(
                "IPAMConfig",
                strings="Subnet IPRange Gateway",
                AuxiliaryAddresses=Map(STRING),
                AuxAddress=Map(STRING),
            )
        ),
    ),
    ConfigFrom=struct("ConfigReference", strings="Network"),
)
NETWORK_CONNECT: Final = struct("Connect", strings="Container", EndpointConfig=_ENDPOINT)
NETWORK_DISCONNECT: Final = struct("Disconnect", strings="Container", booleans="Force")

AUTH: Final = struct(
    "AuthConfig",
    strings="username password auth email serveraddress identitytoken registrytoken",
)

_LIMITS: Final = struct(
    "Limit",
    integers="NanoCPUs MemoryBytes Pids",
    GenericResources=Array(
        struct(
            "GenericResource",
            NamedResourceSpec=struct("NamedGenericResource", strings="Kind Value"),
            DiscreteResourceSpec=struct(
                "DiscreteGenericResource", strings="Kind", integers="Value"
            ),
        )
    ),
)
_FILE: Final = struct("File", strings="Name UID GID", integers="Mode")
_UPDATE: Final = struct(
    "UpdateConfig",
    strings="FailureAction Order",
    integers="Parallelism Delay Monitor",
    MaxFailureRatio=LOOSE,
)
_CONTAINER_SPEC: Final = struct(
    "ContainerSpec",
    strings="Image Hostname Dir User StopSignal Isolation",
    booleans="Init TTY OpenStdin ReadOnly",
    integers="StopGracePeriod OomScoreAdj",
    lists="Command Args Env Groups Hosts CapabilityAdd CapabilityDrop",
    maps="Labels Sysctls",
    Privileges=struct(
        "Privileges",
        booleans="NoNewPrivileges",
        CredentialSpec=struct("CredentialSpec", strings="Config File Registry"),
        SELinuxContext=struct("SELinuxContext", booleans="Disable", strings="User Role Type Level"),
        Seccomp=struct("SeccompOpts", strings="Mode Profile"),
        AppArmor=struct("AppArmorOpts", strings="Mode"),
    ),
    Mounts=_MOUNTS,
    Healthcheck=_HEALTHCHECK,
    DNSConfig=struct("DNSConfig", lists="Nameservers Search Options"),
    Secrets=Array(struct("SecretReference", strings="SecretID SecretName", File=_FILE)),
    Configs=Array(
        struct(
            "ConfigReference",
            strings="ConfigID ConfigName",
            File=_FILE,
            Runtime=struct("ConfigReferenceRuntimeTarget"),
        )
    ),
    Ulimits=_ULIMITS,
)
_NETWORKS: Final = Array(
    struct("NetworkAttachmentConfig", strings="Target", lists="Aliases", maps="DriverOpts")
)
SERVICE: Final = struct(
    "ServiceSpec",
    strings="Name",
    maps="Labels",
    TaskTemplate=struct(
        "TaskSpec",
        strings="Runtime",
        integers="ForceUpdate",
        ContainerSpec=_CONTAINER_SPEC,
        PluginSpec=LOOSE,
        NetworkAttachmentSpec=LOOSE,
        Resources=struct(
            "ResourceRequirements",
            Limits=_LIMITS,
            Reservations=_LIMITS,
            SwapBytes=INTEGER,
            MemorySwappiness=INTEGER,
        ),
        RestartPolicy=struct(
            "RestartPolicy", strings="Condition", integers="Delay MaxAttempts Window"
        ),
        Placement=struct(
            "Placement",
            lists="Constraints",
            integers="MaxReplicas",
            Preferences=Array(
                struct(
                    "PlacementPreference",
                    Spread=struct("SpreadOver", strings="SpreadDescriptor"),
                )
            ),
            Platforms=Array(struct("Platform", strings="Architecture OS")),
        ),
        Networks=_NETWORKS,
        LogDriver=struct("Driver", strings="Name", maps="Options"),
    ),
    Mode=struct(
        "ServiceMode",
        Replicated=struct("ReplicatedService", integers="Replicas"),
        Global=struct("GlobalService"),
        ReplicatedJob=struct("ReplicatedJob", integers="MaxConcurrent TotalCompletions"),
        GlobalJob=struct("GlobalJob"),
    ),
    UpdateConfig=_UPDATE,
    RollbackConfig=_UPDATE,
    Networks=_NETWORKS,
    EndpointSpec=struct(
        "EndpointSpec",
        strings="Mode",
        Ports=Array(
            struct(
                "PortConfig",
                strings="Name Protocol PublishMode",
                integers="TargetPort PublishedPort",
            )
        ),
    ),
)

SWARM_INIT: Final = struct(
    "InitRequest",
    strings="ListenAddr AdvertiseAddr DataPathAddr Availability",
    booleans="ForceNewCluster AutoLockManagers",
    integers="DataPathPort SubnetSize",
    lists="DefaultAddrPool",
    Spec=LOOSE,
)
SWARM_JOIN: Final = struct(
    "JoinRequest",
    strings="ListenAddr AdvertiseAddr DataPathAddr JoinToken Availability",
    lists="RemoteAddrs",
)
SWARM_UNLOCK: Final = struct("UnlockRequest", strings="UnlockKey")
SWARM_SPEC: Final[Type] = LOOSE
SECRET: Final = struct(
    "SecretSpec",
    strings="Name Data",
    maps="Labels",
    Driver=struct("Driver", strings="Name", maps="Options"),
    Templating=struct("Driver", strings="Name", maps="Options"),
)
PRIVILEGES: Final[Type] = Array(LOOSE)
