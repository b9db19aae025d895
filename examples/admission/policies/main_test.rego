package system_test

import data.system

pod(labels, image, context) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "u",
		"kind": {"group": "", "version": "v1", "kind": "Pod"},
		"namespace": "shop",
		"object": {
			"metadata": {"labels": labels},
			"spec": {"containers": [{"name": "c", "image": image, "securityContext": context}]},
		},
	},
}

ours := "registry.example.com/web:1"

test_a_good_pod_is_admitted if {
	answer := system.main with input as pod({"owner": "shop"}, ours, {})
	answer.response == {"uid": "u", "allowed": true}
}

test_every_violation_is_said if {
	bad := pod({"owner": "Shop 1"}, "evil.example/web", {"privileged": true})
	answer := system.main with input as bad
	not answer.response.allowed
	count(system.messages) == 3 with input as bad
}

test_a_label_that_is_missing_is_said if {
	answer := system.main with input as pod({}, ours, {})
	answer.response.status.message == "[pods-have-an-owner] you must provide labels: owner"
}

test_a_registry_with_our_name_in_front_is_not_ours if {
	image := "registry.example.com.evil.net/web:1"
	answer := system.main with input as pod({"owner": "shop"}, image, {})
	not answer.response.allowed
}

test_an_ephemeral_container_is_looked_at if {
	request := json.patch(pod({"owner": "shop"}, ours, {}), [{
		"op": "add",
		"path": "/request/object/spec/ephemeralContainers",
		"value": [{"name": "debug", "image": "evil.example/sh"}],
	}])
	answer := system.main with input as request
	not answer.response.allowed
}

test_what_is_no_review_is_not_admitted if {
	every request in [{"uid": "u"}, {"uid": "u", "kind": {"kind": "Pod"}}] {
		answer := system.main with input as {"request": request}
		not answer.response.allowed
	}
}

test_a_constraint_without_a_template_denies if {
	constraints := {"c": {"kind": "Nothing", "match": {"kinds": []}, "parameters": {}}}
	answer := system.main with input as pod({"owner": "shop"}, ours, {}) with data.constraints as constraints
	answer.response.status.message == "[c] there is no template Nothing"
}
