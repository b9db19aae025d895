package docs

default read := false

read if {
	own_tenant
	input.docs.owner == input.user
}

read if {
	own_tenant
	input.docs.status == "public"
	live
}

own_tenant if input.docs.tenant == input.tenant

live if input.docs.expires_at == null

live if time.parse_rfc3339_ns(input.docs.expires_at) > time.now_ns()

# Holds.
never_of_another_tenant if {
	read
	input.docs.tenant != input.tenant
}

# Holds.
never_a_private_one_of_others if {
	read
	input.docs.owner != input.user
	input.docs.status == "private"
}

# Holds.
never_an_expired_one_of_others if {
	read
	input.docs.owner != input.user
	time.parse_rfc3339_ns(input.docs.expires_at) <= time.now_ns()
}

# Broken: owners read what has expired.
never_an_expired_one if {
	read
	time.parse_rfc3339_ns(input.docs.expires_at) <= time.now_ns()
}
