# Admins may delete people, too. Loaded beside policy.rego, whose package it extends:
#
#   doorward run --server --config-file doorward.yaml policy.rego policy_delete.rego secrets.json
#
# `action_allowed` is true when any of its definitions is, in whatever file. Token, role and the
# truncated body are judged as before; nothing in policy.rego changes.
package envoy.authz

action_allowed if {
	http.method == "DELETE"
	claims.role == "admin"

	# One person, by the path or by the query, and no other parameter: DELETE /people alone is
	# denied here, although the application would refuse it as well.
	regex.match(`^/people(/|\?id=)[1-9][0-9]{0,17}$`, http.path)
}
