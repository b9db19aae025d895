# Promises of these policies, for any request: `doorward prove` and `doorward test` say whether they
# hold with the data that is in use.
package policy.docker.properties_test

import data.policy.docker.authz
import data.policy.docker.guards
import data.policy.docker.owners
import data.policy.docker.roles

# What no route of the engine matches is allowed to nobody.
never_an_unknown_action if {
	authz.allow
	input.action == "unknown"
}

# A guard that objects has the last word, for everybody but administrators.
never_past_a_guard if {
	authz.allow
	not roles.admin
	count(guards.objections) > 0
}

# While the daemon listens where nobody is verified, a caller without a certificate has no role.
never_unverified_on_an_open_listener if {
	authz.allow
	input.identified == false
	count(input.open_listeners) > 0
}

# Where things have owners, a caller without a certificate has no role.
never_nameless_where_things_have_owners if {
	authz.allow
	input.identified == false
	owners.enabled
}
