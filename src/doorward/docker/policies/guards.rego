# What a request may not have, whatever its action, unless an admin makes it. Each objection names
# its rule and says what was wrong in a few words.
package policy.docker.guards

import data.docker.capabilities
import data.docker.images
import data.docker.limits
import data.docker.mounts
import data.docker.networks
import data.docker.ports
import data.docker.runtimes
import data.docker.sysctls

# Whoever can write here is the daemon, or can turn the plugin off.
protected := [
	"/boot", "/dev", "/etc/docker", "/etc/doorward", "/proc", "/run/containerd", "/run/docker",
	"/run/docker.sock", "/sys", "/var/lib/containerd", "/var/lib/docker", "/var/run/docker.sock",
]

objections contains {"rule": "fields", "message": "field unknown to the policy"} if {
	count(input.unknown_fields) > 0
}

# mounts

objections contains {"rule": "mounts", "message": message} if {
	some mount in input.mounts
	mount.type in {"bind", "device"}
	not allowed_source(mount)
	message := sprintf("host path %s may not be mounted", [mount.clean])
}

objections contains {"rule": "mounts", "message": "mount may not propagate to the host"} if {
	some mount in input.mounts
	mount.propagation in {"shared", "rshared"}
}

objections contains {"rule": "mounts", "message": message} if {
	some mount in input.mounts
	mount.type in {"filesystem", "npipe", "other", "cluster"}
	message := sprintf("mount of %s cannot be judged", [mount.origin])
}

objections contains {"rule": "mounts", "message": "volumes of another container may not be used"} if {
	not mounts.volumes_from
	some mount in input.mounts
	mount.origin == "VolumesFrom"
}

objections contains {"rule": "mounts", "message": message} if {
	some mount in input.mounts
	mount.type == "volume"
	not mount.origin == "VolumesFrom"
	not mount.driver in mounts.volume_drivers
	message := sprintf("volume driver %s may not be used", [mount.driver])
}

allowed_source(mount) if {
	not mount.unresolved
	below_allowed(mount.clean)
	below_allowed(mount.resolved)
	not touches_protected(mount.resolved)
}

below_allowed(path) if {
	some allowed in mounts.allow
	below(path, allowed)
}

touches_protected(path) if {
	some place in protected
	below(path, place)
}

touches_protected(path) if {
	some place in protected
	below(place, path)
}

below(path, folder) if path == folder

below(path, folder) if startswith(path, concat("", [trim_right(folder, "/"), "/"]))

# security

objections contains {"rule": "privileged", "message": "privileged is not allowed"} if {
	input.security.privileged
}

objections contains {"rule": "capabilities", "message": message} if {
	some capability in input.security.cap_add
	not capability in capabilities.allow
	message := sprintf("capability %s is not allowed", [capability])
}

objections contains {"rule": "profiles", "message": message} if {
	some name in ["seccomp", "apparmor"]
	not input.security[name] in {"default", "builtin", "docker-default"}
	message := sprintf("%s profile may not be changed", [name])
}

objections contains {"rule": "profiles", "message": "SELinux label may not be disabled"} if {
	input.security.label_disabled
}

objections contains {"rule": "profiles", "message": message} if {
	some option in input.security.options
	key := split(option, "=")[0]
	not key in {"apparmor", "no-new-privileges", "seccomp", "systempaths"}
	message := sprintf("security option %s is not allowed", [key])
}

objections contains {"rule": "profiles", "message": "paths of the system may not be unmasked"} if {
	some name in ["masked_paths", "readonly_paths"]
	input.security[name] != "default"
}

objections contains {"rule": "namespaces", "message": message} if {
	some namespace in input.security.host_namespaces
	message := sprintf("%s namespace of the host may not be used", [namespace])
}

objections contains {"rule": "namespaces", "message": "namespace of a container may not be joined"} if {
	not networks.join_containers
	count(input.security.joined_containers) > 0
}

objections contains {"rule": "devices", "message": "devices are not allowed"} if input.devices.any

objections contains {"rule": "cgroup", "message": "parent of the control group may not be chosen"} if {
	input.cgroup.parent != ""
}

objections contains {"rule": "sysctls", "message": message} if {
	some name, _ in input.security.sysctls
	not name in sysctls.allow
	message := sprintf("sysctl %s is not allowed", [name])
}

objections contains {"rule": "runtime", "message": message} if {
	input.security.runtime != ""
	not input.security.runtime in runtimes.allow
	message := sprintf("runtime %s is not allowed", [input.security.runtime])
}

# containers that are there already, where the plugin was told to ask the daemon about them

entering := {
	"container.archive.get", "container.archive.put", "container.attach", "container.commit",
	"container.exec", "container.export", "container.update",
}

objections contains {"rule": "container", "message": "container reaches the host"} if {
	input.action in entering
	input.container.known
	reaches_host(input.container)
}

objections contains {"rule": "container", "message": "container cannot be judged"} if {
	input.action in entering
	input.container.asked
	not input.container.known
	not input.container.missing
}

reaches_host(container) if container.security.privileged

reaches_host(container) if container.devices.any

# On older kernels the host's namespace of control groups is every container's.
reaches_host(container) if {
	some namespace in container.security.host_namespaces
	namespace != "cgroup"
}

reaches_host(container) if {
	some capability in container.security.cap_add
	not capability in capabilities.allow
}

reaches_host(container) if {
	some mount in container.mounts
	mount.type in {"bind", "npipe", "other"}
	not allowed_source(mount)
}

# services

objections contains {"rule": "services", "message": "service may not install a plugin"} if {
	input.action in {"service.create", "service.update"}
	not runs_containers
}

runs_containers if {
	task := object.get(input.body, "TaskTemplate", {})
	object.get(task, "PluginSpec", null) == null
	object.get(task, "NetworkAttachmentSpec", null) == null
	object.get(task, "Runtime", "") in {"", "container"}
}

objections contains {"rule": "services", "message": "network of a service cannot be judged"} if {
	input.action in {"service.create", "service.update"}
	input.network.unresolved
	not networks.services_by_identifier
}

# images

objections contains {"rule": "images", "message": message} if {
	some image in asked_images
	not allowed_image(image)
	message := sprintf("image %s is not allowed", [image.reference])
}

objections contains {"rule": "images", "message": "image must be named by its digest"} if {
	images.require_digest
	input.action in {"container.create", "service.create", "service.update", "image.pull"}
	input.image.digest == ""
}

asked_images contains input.image if {
	input.action in {
		"container.create", "container.commit", "image.pull", "image.import", "image.push",
		"image.tag", "service.create", "service.update",
	}
	input.image.reference != ""
}

asked_images contains image if {
	input.action == "image.build"
	some image in input.images
}

allowed_image(_) if "**" in images.allow

allowed_image(image) if {
	not image.unresolved
	some pattern in images.allow
	glob.match(pattern, ["/"], image.name)
}

# limits

objections contains {"rule": "limits", "message": message} if {
	input.action in {"container.create", "service.create", "service.update"}
	some name, ceiling in limits
	ceiling > 0
	not within(name, ceiling)
	message := sprintf("%s must be limited to %v", [name, ceiling])
}

objections contains {"rule": "limits", "message": message} if {
	input.action == "container.update"
	some name, ceiling in limits
	ceiling > 0
	input.resources[name] != 0
	not within(name, ceiling)
	message := sprintf("%s must be limited to %v", [name, ceiling])
}

within(name, ceiling) if {
	input.resources[name] > 0
	input.resources[name] <= ceiling
}

objections contains {"rule": "limits", "message": "the host must be able to end the container"} if {
	input.resources.oom_kill_disable
}

objections contains {"rule": "limits", "message": "the host must be able to end the container"} if {
	input.resources.oom_score_adj < 0
}

# ports and networks

objections contains {"rule": "ports", "message": message} if {
	some port in input.ports.published
	not allowed_port(port)
	message := sprintf("host port %s may not be published", [port.host])
}

allowed_port(port) if port.host in {"", "0"}

allowed_port(port) if {
	port.first >= ports.first
	port.last <= ports.last
	port.first <= port.last
}

objections contains {"rule": "networks", "message": message} if {
	input.action == "network.create"
	not input.network.driver in networks.drivers
	message := sprintf("network driver %s is not allowed", [input.network.driver])
}
