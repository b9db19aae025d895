# The todo application of the working group's interoperability events: roles are the policy's own.
package authzen

default allow := false

allow if input.action.name in {"can_read_user", "can_read_todos"}

allow if {
	input.action.name == "can_create_todo"
	some role in {"admin", "editor"}
	role in user.roles
}

allow if {
	input.action.name == "can_update_todo"
	"evil_genius" in user.roles
}

allow if {
	input.action.name == "can_delete_todo"
	"admin" in user.roles
}

allow if {
	input.action.name in {"can_update_todo", "can_delete_todo"}
	"editor" in user.roles
	input.resource.properties.ownerID == user.id
}

user := data.users[input.subject.id]
