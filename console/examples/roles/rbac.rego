package rbac

default allow := false

allow if {
	some role in data.users[input.user]
	some grant in data.roles[role]
	grant.action == input.action
	grant.type == input.type
}
