# The decision on a request to the Docker daemon: denied unless a role allows the action and no
# guard objects. Who has which role, and what the guards allow, stands in the data.
package policy.docker.authz

import data.policy.docker.guards
import data.policy.docker.roles

default allow := false

allow if {
	roles.permitted
	roles.admin
}

allow if {
	roles.permitted
	not roles.admin
	count(guards.objections) == 0
}

messages := [sprintf("%s may not %s", [roles.name, input.action])] if not roles.permitted

messages := [objection.message | some objection in guards.objections] if {
	roles.permitted
	not roles.admin
}

default rule := "roles"

rule := [objection.rule | some objection in guards.objections][0] if {
	roles.permitted
	not roles.admin
}

rule := "admin" if {
	roles.permitted
	roles.admin
}
