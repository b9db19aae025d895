# Who may do what with the People API.
#
# Guests read. Admins read and create, but nobody creates a person with their own first name.
# Everything else is denied: another method, another path, another role, a token that is missing,
# forged, expired or not yet valid, and a request that this policy cannot read to its end.
#
# The shared secret is data, `data.secrets.jwt`, and stands in a file of its own. Without it every
# request is denied.
package envoy.authz

default allow := false

allow if {
	# The check carries the first bytes of a long body; the application would read the rest as well.
	not input.truncated_body
	action_allowed
}

# `path` is what Envoy forwards: normalised, with the query. In these globs `*` stands for anything
# but a dot (no delimiters given means ".", as in OPA), so that /people, /people/1, /people?x=1 and
# /peoples match "/people*", and /people/1.json does not. "/people" matches itself only.
action_allowed if {
	http.method == "GET"
	claims.role == "guest"
	glob.match("/people*", [], http.path)
}

action_allowed if {
	http.method == "GET"
	claims.role == "admin"
	glob.match("/people*", [], http.path)
}

# A body that is not a JSON object with a text `firstname`, or a `sub` that is not base64url, makes the
# comparison undefined, and undefined is not allowed.
action_allowed if {
	http.method == "POST"
	claims.role == "admin"
	glob.match("/people", [], http.path)
	lower(input.parsed_body.firstname) != lower(base64url.decode(claims.sub))
}

# The claims of a token that is valid now; undefined when it is not.
claims := payload if {
	# Exactly one space, and two parts. The scheme word is not looked at.
	[_, encoded] := split(http.headers.authorization, " ")
	[verified, _, payload] := io.jwt.decode_verify(encoded, {"secret": secret, "alg": "HS256"})
	verified

	# Both are there, and whole numbers, written without a point. Whole seconds compare in
	# nanoseconds as they do in seconds.
	indexof(json.marshal([payload.nbf, payload.exp]), ".") == -1
	now := time.now_ns()
	payload.nbf * 1000000000 <= now
	now < payload.exp * 1000000000
}

# Anybody can sign with an empty secret.
secret := data.secrets.jwt if data.secrets.jwt != ""

http := input.attributes.request.http
