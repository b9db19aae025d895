# Attribute-based access: statements of several policies are matched against what subject, resource
# and surroundings are; one that denies outweighs all that permit.
package attributes

default allow := false

allow if {
	some statement in applicable
	statement.effect == "permit"
	not denied
}

denied if {
	some statement in applicable
	statement.effect == "deny"
}

applicable contains statement if {
	some policy in data.policies
	policy.enabled
	some statement in policy.statements
	input.action in statement.actions
	every condition in statement.conditions {
		holds(condition)
	}
}

holds(condition) if {
	condition.operator == "equal"
	input[condition.document][condition.attribute] == condition.value
}

holds(condition) if {
	condition.operator == "any"
	some value in input[condition.document][condition.attribute]
	value in condition.values
}

holds(condition) if {
	condition.operator == "at_least"
	input[condition.document][condition.attribute] >= condition.value
}
