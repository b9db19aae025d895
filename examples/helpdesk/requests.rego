# Which requests reach the site at all; what they may do there is decided by policy.rego.
package envoy.authz

http := input.attributes.request.http

default allow := false

allow if input.parsed_path[0] in {"admin", "static"}

allow if {
	http.method == "GET"
	input.parsed_path == ["tickets"]
}
