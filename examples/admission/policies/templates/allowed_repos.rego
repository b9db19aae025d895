# METADATA
# title: Images come from certain registries
package templates.K8sAllowedRepos

violation contains {"msg": msg} if {
	some kind in ["containers", "initContainers", "ephemeralContainers"]
	some container in input.review.object.spec[kind]
	not is_allowed(container.image)
	msg := sprintf("container %s has an image of another registry: %s", [container.name, container.image])
}

# A prefix ends with a slash: `registry.example.com` would allow `registry.example.com.evil.net`.
is_allowed(image) if {
	some repo in input.parameters.repos
	endswith(repo, "/")
	startswith(image, repo)
}
