# Promises of policy.rego, for any request: `doorward prove policy.rego properties_test.rego data.json`
# proves them.
package envoy.authz_properties

import data.envoy.authz

http := input.attributes.request.http

never_without_a_header if {
	authz.allow
	not http.headers.authorization
}

never_another_method if {
	authz.allow
	not http.method in {"GET", "POST"}
}

never_outside_people if {
	authz.allow
	not startswith(http.path, "/people")
}

never_another_role if {
	authz.allow
	not authz.claims.role in {"guest", "admin"}
}

never_a_guest_who_writes if {
	authz.allow
	authz.claims.role == "guest"
	http.method != "GET"
}

never_a_person_below_people if {
	authz.allow
	http.method == "POST"
	startswith(http.path, "/people/")
}

never_ones_own_name if {
	authz.allow
	http.method == "POST"
	lower(input.parsed_body.firstname) == lower(base64url.decode(authz.claims.sub))
}

never_a_body_that_was_cut if {
	authz.allow
	input.truncated_body == true
}

never_with_an_expired_token if {
	authz.allow
	authz.claims.exp * 1000000000 <= time.now_ns()
}
