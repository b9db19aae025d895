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

messages := judged if {
	roles.permitted
	not roles.admin
	count(judged) > 0
}

messages := untyped if {
	roles.permitted
	not roles.admin
	count(judged) == 0
}

judged := [objection.message |
	some objection in guards.objections
	objection.rule != "types"
]

# Where a guard objects, it says better why.
untyped := [objection.message |
	some objection in guards.objections
	objection.rule == "types"
]

# What an administrator would put into the data to allow it.
lines := [line] if {
	not roles.permitted
	line := roles.line
}

lines := sort({objection.line |
	some objection in guards.objections
	objection.line != ""
}) if {
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
