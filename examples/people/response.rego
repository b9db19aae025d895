# What comes back from the People API: guests read people without their last names, admins read all
# of it. Any other answer of the API than 200 is denied.
package envoy.response

import data.envoy.authz

default allow := false

allow if input.response.status == 200

remove contains ["*", "lastname"] if {
	authz.claims.role == "guest"
	is_array(input.response.parsed_body)
}

remove contains ["lastname"] if {
	authz.claims.role == "guest"
	is_object(input.response.parsed_body)
}
