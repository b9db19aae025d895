# METADATA
# title: Objects have certain labels
package templates.K8sRequiredLabels

violation contains {"msg": msg} if {
	provided := object.keys(object.get(input.review.object.metadata, "labels", {}))
	missing := {label.key | some label in input.parameters.labels} - provided
	count(missing) > 0
	msg := sprintf("you must provide labels: %s", [concat(", ", missing)])
}

violation contains {"msg": msg} if {
	some label in input.parameters.labels
	value := input.review.object.metadata.labels[label.key]
	not regex.match(label.allowedRegex, value)
	msg := sprintf("label %s: %s does not match %s", [label.key, value, label.allowedRegex])
}
