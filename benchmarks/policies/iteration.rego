# A list is walked through and every element asked several questions, as admission policies do.
package iteration

default allow := false

allow if count(deny) == 0

deny contains message if {
	some container in input.containers
	container.privileged
	message := sprintf("%s is privileged", [container.name])
}

deny contains message if {
	some container in input.containers
	not trusted(container.image)
	message := sprintf("%s uses %s", [container.name, container.image])
}

deny contains message if {
	some container in input.containers
	some volume in container.volumes
	volume.path in {"/", "/etc", "/proc", "/var/run"}
	message := sprintf("%s mounts %s", [container.name, volume.path])
}

trusted(image) if {
	some prefix in ["registry.internal/", "docker.io/library/"]
	startswith(image, prefix)
}
