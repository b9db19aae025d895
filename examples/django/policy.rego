# The requests of the site, and who may see which order.
package envoy.authz

default allow := false

# Asked by the middleware.
allow if {
	input.attributes.request.http.method == "GET"
	input.parsed_path[0] == "orders"
}
