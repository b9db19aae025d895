# Token exchange: one token is verified, its scopes are narrowed, and claims for another are made.
package exchange

default grant := {}

grant := claims if {
	[scheme, encoded] := split(input.headers.authorization, " ")
	lower(scheme) == "bearer"
	[valid, _, subject] := io.jwt.decode_verify(encoded, {
		"secret": data.secret,
		"aud": data.audience,
	})
	valid
	wanted := {scope | some scope in split(input.form.scope, " "); scope != ""}
	held := {scope | some scope in split(subject.scope, " ")}
	granted := wanted & held
	count(granted) > 0
	every scope in granted {
		regex.match(`^[a-z]+:[a-z*]+$`, scope)
	}
	client := trim_suffix(lower(input.form.client_id), "@clients")
	startswith(client, "svc-")
	target := sprintf("https://%s.%s/", [replace(client, "svc-", ""), data.domain])
	claims := {
		"sub": concat("|", [upper(subject.sub), client]),
		"aud": target,
		"scope": concat(" ", sort(granted)),
		"act": {"sub": base64url.encode_no_pad(subject.sub)},
		"exp": min([subject.exp, input.now + 300]),
	}
}
