# Admission of a pod: every container of it, of whatever kind, is looked at by every rule.
package kubernetes

default allow := false

allow if count(deny) == 0

containers contains container if some container in input.request.object.spec.containers

containers contains container if some container in input.request.object.spec.initContainers

deny contains message if {
	some container in containers
	container.securityContext.privileged
	message := sprintf("%s is privileged", [container.name])
}

deny contains message if {
	some container in containers
	not container.securityContext.runAsNonRoot
	message := sprintf("%s may run as root", [container.name])
}

deny contains message if {
	some container in containers
	some capability in container.securityContext.capabilities.add
	not capability in {"NET_BIND_SERVICE", "CHOWN"}
	message := sprintf("%s adds %s", [container.name, capability])
}

deny contains message if {
	some container in containers
	some resource in ["cpu", "memory"]
	not container.resources.limits[resource]
	message := sprintf("%s has no limit of %s", [container.name, resource])
}

deny contains message if {
	some container in containers
	not startswith(container.image, "registry.internal/")
	message := sprintf("%s uses %s", [container.name, container.image])
}

deny contains message if {
	some container in containers
	regex.match(`:latest$`, container.image)
	message := sprintf("%s uses the latest image", [container.name])
}

deny contains message if {
	some container in containers
	some variable in container.env
	contains(lower(variable.name), "password")
	variable.value
	message := sprintf("%s has a secret in %s", [container.name, variable.name])
}

deny contains message if {
	some container in containers
	some mount in container.volumeMounts
	some volume in input.request.object.spec.volumes
	volume.name == mount.name
	volume.hostPath
	message := sprintf("%s mounts %s of the host", [container.name, volume.hostPath.path])
}

deny contains message if {
	some label in ["app", "owner", "tier"]
	not input.request.object.metadata.labels[label]
	message := sprintf("no label %s", [label])
}

deny contains "host network" if input.request.object.spec.hostNetwork
