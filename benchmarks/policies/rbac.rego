# Roles and grants come from data: the policy joins the user's roles with what they permit.
package rbac

default allow := false

allow if {
	some role in data.bindings[input.user]
	some grant in data.roles[role]
	grant.action == input.action
	grant.type == input.type
}
