# The decision of a policy that was learned by `doorward learn`. This text is the same for every log:
# whatever was learned is data, in data.json. Everything that no rule there allows is denied.
#
# `data.learned.subject` says where the claims are: {"from": "token"} verifies the bearer token of the
# request with the constraints in `data.token`, a file of your own such as
# {"token": {"secret": "...", "alg": "HS256"}} or {"token": {"cert": "<JWKS>", "alg": "RS256"}}.
# {"from": "input", "claims": ["claims"], "user": ["user"]} takes them from the input, for callers that
# verified them. `data.learned.form` is the form of the requests that were in the log.
package learned.authz

default allow := false

allow if some _ in rules

# The rules that allow the request, by their names in review.yaml: a request in the form of Envoy, where
# its path has one reading (no escapes, no empty segment but the last, no dot segments).
rules contains rule.id if {
	data.learned.form == "envoy"
	regex.match(`^[a-z0-9._-]{0,200}(:[0-9]{1,5})?$`, lower(object.get(http, "host", "")))
	host := split(lower(object.get(http, "host", "")), ":")[0]
	some method, routes in data.learned.routes[host]
	method == http.method
	some rule in routes[format_int(count(input.parsed_path), 10)]
	permits(rule, input.parsed_path)
	split(http.path, "?")[0] == concat("/", array.concat([""], input.parsed_path))
	is_plain(input.parsed_path)
}

# In the form of a service that asks: a list of segments, or a text.
rules contains rule.id if {
	data.learned.form == "list"
	is_array(input.path)
	some method, routes in data.learned.routes[""]
	method == input.method
	some rule in routes[format_int(count(input.path), 10)]
	permits(rule, input.path)
	is_plain(input.path)
}

rules contains rule.id if {
	data.learned.form == "text"
	startswith(input.path, "/")
	path := split(substring(input.path, 1, -1), "/")
	some method, routes in data.learned.routes[""]
	method == input.method
	some rule in routes[format_int(count(path), 10)]
	permits(rule, path)
	is_plain(path)
}

# Segments and conditions are asked one by one as far as possible: `doorward prove` follows that, and
# no further than an `every`.
permits(rule, path) if {
	identified
	fits_at(rule, path, 0)
	fits_at(rule, path, 1)
	fits_at(rule, path, 2)
	fits_at(rule, path, 3)
	fits_after(rule, path, 4)
	some who in rule.who
	has_at(who, 0)
	has_at(who, 1)
	every name, _ in query {
		name in rule.query
	}
	every owned in rule.owned {
		is_own(owned)
	}
}

fits_at(rule, path, position) if fits(rule.path[position], path[position])

fits_at(rule, _, position) if position >= count(rule.path)

fits_after(rule, path, first) if {
	count(rule.path) > first
	every position, part in array.slice(rule.path, first, count(rule.path)) {
		fits(part, path[position + first])
	}
}

fits_after(rule, _, first) if count(rule.path) <= first

# At most two conditions are learned.
has_at(who, position) if has(who[position])

has_at(who, position) if {
	position >= count(who)
	count(who) < 3
}

# A segment of the path: a word, one of a closed set, a value of a type, a number behind a prefix, or
# the subject's.
fits(part, text) if part.word == text

fits(part, text) if data.learned.sets[part.set][text] == true

fits(part, text) if regex.match(patterns[part.type], text)

fits(part, text) if {
	startswith(text, part.prefix)
	regex.match(`^[0-9]{3,18}$`, trim_prefix(text, part.prefix))
}

fits(part, text) if owns(part.claim, text)

patterns := {
	"date": `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`,
	"hex": `^[0-9a-f]{16,128}$`,
	"int": `^(0|[1-9][0-9]{0,18})$`,
	"padded": `^0[0-9]{2,18}$`,
	"ulid": `^[0-7][0-9A-HJKMNP-TV-Z]{25}$`,
	"uuid": `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`,
}

# A condition on who asks: a claim is this text, or a list with it, or a text with it as a word.
has(condition) if {
	condition.is == "text"
	is_claim(condition.claim, condition.value)
}

has(condition) if {
	condition.is == "list"
	count(condition.claim) == 1
	is_array(claims[condition.claim[0]])
	condition.value in claims[condition.claim[0]]
}

has(condition) if {
	condition.is == "list"
	count(condition.claim) == 2
	is_array(claims[condition.claim[0]][condition.claim[1]])
	condition.value in claims[condition.claim[0]][condition.claim[1]]
}

has(condition) if {
	condition.is == "words"
	count(condition.claim) == 1
	condition.value in split(claims[condition.claim[0]], " ")
}

has(condition) if {
	condition.is == "words"
	count(condition.claim) == 2
	condition.value in split(claims[condition.claim[0]][condition.claim[1]], " ")
}

# A missing claim, a list and an empty text own nothing.
owns(claim, text) if {
	text != ""
	is_claim(claim, text)
}

# The path of a claim is its name, or that of an object and its name; the empty one is the user.
is_claim(path, text) if {
	count(path) == 0
	is_string(user)
	user == text
}

is_claim(path, text) if {
	count(path) == 1
	is_string(claims[path[0]])
	claims[path[0]] == text
}

is_claim(path, text) if {
	count(path) == 2
	is_string(claims[path[0]][path[1]])
	claims[path[0]][path[1]] == text
}

# Claims that were numbers or booleans in the log, and are this text as JSON.
is_claim(path, text) if {
	count(path) == 1
	path in data.learned.subject.scalars
	not is_string(claims[path[0]])
	json.marshal(claims[path[0]]) == text
}

is_claim(path, text) if {
	count(path) == 2
	path in data.learned.subject.scalars
	not is_string(claims[path[0]][path[1]])
	json.marshal(claims[path[0]][path[1]]) == text
}

# A field of the query or of the body is the subject's.
is_own(owned) if {
	owned.in == "query"
	[text] = query[owned.name]
	owns(owned.claim, text)
}

is_own(owned) if {
	owned.in == "body"
	not input.truncated_body
	is_string(input.parsed_body[owned.name])
	owns(owned.claim, input.parsed_body[owned.name])
}

is_own(owned) if {
	owned.in == "body"
	not input.truncated_body
	is_number(input.parsed_body[owned.name])
	owns(owned.claim, json.marshal(input.parsed_body[owned.name]))
}

default query := {}

query := input.parsed_query

is_plain(path) if {
	count(path) > 0
	every text in array.slice(path, 0, count(path) - 1) {
		text != ""
	}
	every text in path {
		is_string(text)
		not text in {".", ".."}
		not regex.match(`[\x00-\x20\x7f\\/;?#%]`, text)
	}
}

http := input.attributes.request.http

# Nobody is a subject without a name.
identified if {
	is_string(claims.sub)
	claims.sub != ""
}

identified if {
	["sub"] in data.learned.subject.scalars
	is_number(claims.sub)
}

identified if {
	is_string(user)
	user != ""
}

claims := payload if {
	data.learned.subject.from == "token"
	[scheme, token] := split(http.headers.authorization, " ")
	lower(scheme) == "bearer"

	# Anybody can sign with an empty secret.
	object.get(data.token, "secret", "a certificate") != ""
	[verified, _, payload] := io.jwt.decode_verify(token, data.token)
	verified
	is_number(payload.exp)
}

# At most one of these is for the path in the data.
claims := input[place[0]] if {
	place := data.learned.subject.claims
	count(place) == 1
}

claims := input[place[0]][place[1]] if {
	place := data.learned.subject.claims
	count(place) == 2
}

claims := input[place[0]][place[1]][place[2]] if {
	place := data.learned.subject.claims
	count(place) == 3
}

claims := input[place[0]][place[1]][place[2]][place[3]] if {
	place := data.learned.subject.claims
	count(place) == 4
}

user := input[place[0]] if {
	place := data.learned.subject.user
	count(place) == 1
}

user := input[place[0]][place[1]] if {
	place := data.learned.subject.user
	count(place) == 2
}

user := input[place[0]][place[1]][place[2]] if {
	place := data.learned.subject.user
	count(place) == 3
}
