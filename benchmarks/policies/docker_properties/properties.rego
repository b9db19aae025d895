# Six properties of the Docker policies, with users: which roles a caller has, and what a field leads to.
package properties.docker

import data.policy.docker.authz
import data.policy.docker.roles

# Holds: bob is a viewer, and no viewer prunes.
never_a_viewer_prunes if {
	authz.allow
	input.identified == true
	input.AuthMethod == "TLS"
	input.User == "bob"
	input.action == "volume.prune"
}

# Holds: no viewer starts commands.
never_a_viewer_execs if {
	authz.allow
	input.identified == true
	input.AuthMethod == "TLS"
	input.User == "bob"
	input.action in {"container.exec", "exec.start"}
}

# Holds: who has no line in the data has no role.
never_somebody_unknown if {
	authz.allow
	input.identified == true
	input.AuthMethod == "TLS"
	not input.User in {"alice", "bob", "carol", "olga"}
}

# Holds: a certificate without a name is nobody.
never_without_a_name if {
	authz.allow
	input.identified == true
	input.AuthMethod == "TLS"
	input.User == ""
}

# Holds: a guard objects to containers that are privileged.
never_privileged if {
	authz.allow
	not roles.admin
	"security" in input.beyond
	input.security.privileged == true
}

# Holds: a guard objects to fields that the policy does not know.
never_unknown_fields if {
	authz.allow
	not roles.admin
	count(input.unknown_fields) > 0
}
