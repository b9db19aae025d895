# METADATA
# title: No container is privileged
package templates.K8sPSPPrivilegedContainer

violation contains {"msg": msg} if {
	some kind in ["containers", "initContainers", "ephemeralContainers"]
	some container in input.review.object.spec[kind]
	container.securityContext.privileged
	msg := sprintf("privileged container is not allowed: %s", [container.name])
}
