# Text is cut, matched and put together: paths, hosts and headers as gateways see them.
package text

default allow := false

allow if {
	segments := split(trim(input.path, "/"), "/")
	segments[0] == "v1"
	tenant := lower(segments[2])
	host := concat(".", [tenant, "example.com"])
	host == lower(input.host)
	regex.match(`^[a-z][a-z0-9-]{2,30}$`, tenant)
	glob.match("*.example.com", ["."], host)
	not contains(input.path, "..")
	endswith(replace(input.agent, " ", "/"), "(linux)")
	concat("-", [upper(tenant), substring(input.request_id, 0, 8)]) == input.tag
}
