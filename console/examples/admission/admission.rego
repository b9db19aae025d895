package admission

deny contains message if {
	some container in input.request.object.spec.containers
	not endswith_digest(container.image)
	message := sprintf("%s: the image %s has no digest", [container.name, container.image])
}

deny contains message if {
	some container in input.request.object.spec.containers
	not container.resources.limits.memory
	message := sprintf("%s: no limit of memory", [container.name])
}

endswith_digest(image) if regex.match(`@sha256:[0-9a-f]{64}$`, image)
