# Documents of many tenants: who lists, reads and changes which rows.
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

read if {
	own_tenant
	input.user in input.docs.readers
}

default change := false

change if {
	own_tenant
	input.docs.owner == input.user
}

own_tenant if input.docs.tenant == input.tenant

live if input.docs.expires_at == null

live if time.parse_rfc3339_ns(input.docs.expires_at) > time.now_ns()
