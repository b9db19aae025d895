package admission

default allow := false

allow if {
	every container in input.containers {
		startswith(container.image, "registry.internal/")
		not container.privileged
		not container.user == 0
	}
	not input.host_network
	glob.match("team-*", [], input.namespace)
	regex.match(`^[a-z0-9-]{1,20}$`, input.namespace)
}

# Holds.
never_a_privileged_container if {
	allow
	some container in input.containers
	container.privileged == true
}

# Holds.
never_another_registry if {
	allow
	some container in input.containers
	startswith(container.image, "docker.io/")
}

# Holds.
never_root if {
	allow
	some container in input.containers
	container.user == 0
}

# Holds.
never_the_host_network if {
	allow
	input.host_network == true
}

# Holds.
never_a_namespace_of_the_system if {
	allow
	startswith(input.namespace, "kube-")
}

# Broken: the name of a team may end with a hyphen.
never_a_namespace_that_ends_with_a_hyphen if {
	allow
	endswith(input.namespace, "-")
}
