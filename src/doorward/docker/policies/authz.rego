# The decision on a request to the Docker daemon: denied unless a role allows the action and no
# guard objects. Who has which role, and what the guards allow, stands in the data.
package policy.docker.authz

import data.policy.docker.guards
import data.policy.docker.owners
import data.policy.docker.roles

default allow := false

allow if {
	roles.permitted
	roles.admin
}

allow if {
	roles.guarded
	count(guards.objections) == 0
}

messages := [sprintf("%s may not %s", [roles.name, input.action])] if not roles.permitted

# Where a guard objects, it says better why than a type does.
messages := explained if {
	guards.refused
	explained := [objection.message |
		some objection in guards.objections
		objection.rule != "types"
	]
	count(explained) > 0
}

else := [objection.message | some objection in guards.objections] if guards.refused

# What an administrator would put into the data to allow it.
lines := [line] if {
	not roles.permitted
	line := roles.line
}

lines := sort({objection.line |
	some objection in guards.objections
	objection.line != ""
}) if {
	guards.refused
}

default rule := "roles"

rule := [objection.rule | some objection in guards.objections][0] if guards.refused

rule := "admin" if {
	roles.permitted
	roles.admin
}

# The part of the daemon's answer that the caller may see, for the proxy: the values of environment
# variables where a role creates containers; where things have owners, nothing of others.
answers := {"env": shows_env, "owner": owner}

default shows_env := false

shows_env if roles.admin

shows_env if roles.grants("container.create")

default owner := ""

owner := input.User if {
	owners.enabled
	not roles.admin
}
