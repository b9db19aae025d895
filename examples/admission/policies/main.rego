# METADATA
# title: The answer to an AdmissionReview
# description: >
#  The API server posts its review to `/`, which this document answers. A request is denied when a
#  constraint of `data.constraints` that matches it has a violation.
package system

main := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"response": response,
}

response := {"uid": input.request.uid, "allowed": true} if count(messages) == 0

response := {
	"uid": input.request.uid,
	"allowed": false,
	"status": {"code": 403, "message": concat("; ", messages)},
} if {
	count(messages) > 0
}

messages contains sprintf("[%s] %s", [name, violation.msg]) if {
	some name, constraint in data.constraints
	matches(constraint)
	some violation in data.templates[constraint.kind].violation with input as {
		"review": input.request,
		"parameters": constraint.parameters,
	}
}

# What no constraint could match must not be admitted for that.
messages contains "this is not an AdmissionReview of admission.k8s.io/v1" if not is_review

is_review if {
	input.apiVersion == "admission.k8s.io/v1"
	input.kind == "AdmissionReview"
	is_string(input.request.kind.group)
	is_string(input.request.kind.kind)
}

# A constraint without a template would let everything through.
messages contains sprintf("[%s] there is no template %s", [name, constraint.kind]) if {
	some name, constraint in data.constraints
	not data.templates[constraint.kind]
}

matches(constraint) if {
	some kind in constraint.match.kinds
	input.request.kind.group in kind.apiGroups
	input.request.kind.kind in kind.kinds
	not input.request.namespace in object.get(constraint.match, "excludedNamespaces", [])
}
