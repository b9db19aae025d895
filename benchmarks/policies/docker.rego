# Thirty rules over a request to create a container: what it may not have. The answer lists why.
package docker

default allow := false

allow if {
	input.user in data.users
	count(deny) == 0
}

host := input.body.HostConfig

deny contains "privileged" if host.Privileged == true

deny contains "publishes all ports" if host.PublishAllPorts == true

deny contains "may not be killed when memory is short" if host.OomKillDisable == true

deny contains "network of the host" if host.NetworkMode == "host"

deny contains "network of another container" if startswith(host.NetworkMode, "container:")

deny contains "processes of the host" if host.PidMode == "host"

deny contains "memory of the host" if host.IpcMode == "host"

deny contains "names of the host" if host.UTSMode == "host"

deny contains "users of the host" if host.UsernsMode == "host"

deny contains "control groups of the host" if host.CgroupnsMode == "host"

deny contains "control group of its own choice" if host.CgroupParent != ""

deny contains "no limit of memory" if object.get(host, "Memory", 0) <= 0

deny contains "too much memory" if host.Memory > data.limits.memory

deny contains "swaps" if host.MemorySwap > host.Memory

deny contains "too many processors" if host.NanoCpus > data.limits.cpus * 1000000000

deny contains "no limit of processes" if object.get(host, "PidsLimit", 0) <= 0

deny contains "too many processes" if host.PidsLimit > data.limits.pids

deny contains "runs as root" if input.body.User in {"", "0", "root"}

deny contains message if {
	some capability in host.CapAdd
	not capability in data.capabilities
	message := sprintf("capability %s", [capability])
}

deny contains message if {
	some option in host.SecurityOpt
	endswith(option, "unconfined")
	message := sprintf("option %s", [option])
}

deny contains message if {
	some option in host.SecurityOpt
	startswith(option, "label=disable")
	message := sprintf("option %s", [option])
}

deny contains message if {
	some bind in host.Binds
	source := split(bind, ":")[0]
	some forbidden in data.forbidden
	startswith(source, forbidden)
	message := sprintf("mounts %s", [source])
}

deny contains message if {
	some bind in host.Binds
	contains(bind, "docker.sock")
	message := sprintf("mounts the daemon by %s", [bind])
}

deny contains message if {
	some mount in host.Mounts
	mount.Type == "bind"
	not startswith(mount.Source, "/srv/")
	message := sprintf("mounts %s", [mount.Source])
}

deny contains message if {
	some mount in host.Mounts
	mount.BindOptions.Propagation in {"shared", "rshared"}
	message := sprintf("shares %s", [mount.Source])
}

deny contains message if {
	some device in host.Devices
	message := sprintf("device %s", [device.PathOnHost])
}

deny contains message if {
	some name in object.keys(host.Sysctls)
	not startswith(name, "net.")
	message := sprintf("kernel parameter %s", [name])
}

deny contains message if {
	some port, bindings in host.PortBindings
	some binding in bindings
	to_number(binding.HostPort) < 1024
	message := sprintf("port %s for %s", [binding.HostPort, port])
}

deny contains message if {
	image := input.body.Image
	not trusted(image)
	message := sprintf("image %s", [image])
}

deny contains message if {
	some variable in input.body.Env
	regex.match(`^(LD_PRELOAD|LD_LIBRARY_PATH)=`, variable)
	message := sprintf("variable %s", [variable])
}

trusted(image) if {
	some registry in data.registries
	startswith(image, registry)
	contains(image, "@sha256:")
}
