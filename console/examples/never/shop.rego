package shop

default allow := false

allow if input.role == "admin"

allow if input.method == "DELETE"

# METADATA
# title: Guests delete nothing
never_guest_deletes if {
	allow
	input.role == "guest"
	input.method == "DELETE"
}

never_guest_is_admin if {
	input.role == "guest"
	input.role == "admin"
}
