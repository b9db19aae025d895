package rbac

default allow := false

allow if {
	some role in data.bindings[input.user]
	some grant in data.roles[role]
	grant.action == input.action
	grant.type == input.type
}

# Holds: nobody has a role with this grant.
never_audit_is_written if {
	allow
	input.action == "write"
	input.type == "audit"
}

# Holds: kim has the role of readers only.
never_kim_deletes if {
	allow
	input.user == "kim"
	input.action == "delete"
}

# Holds: who is in no binding has no role.
never_a_stranger if {
	allow
	not input.user in {"ann", "bob", "kim"}
}

# Holds: bob deletes documents only.
never_bob_deletes_audits if {
	allow
	input.user == "bob"
	input.action == "delete"
	input.type != "doc"
}

# Broken: ann is an administrator.
never_ann_writes if {
	allow
	input.user == "ann"
	input.action == "write"
}

# Broken: readers list documents.
never_list if {
	allow
	input.action == "list"
}
