# METADATA
# title: Who may ask what of this server
# description: The API server asks for reviews, probes for the health; nobody reads data or policies.
package system.authz

default allow := false

allow if {
	input.method == "POST"
	input.path == [""]
}

allow if {
	input.method == "GET"
	input.path == ["health"]
}
