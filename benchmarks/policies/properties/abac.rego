package abac

default allow := false

allow if {
	input.subject.clearance >= input.resource.level
	input.subject.department == input.resource.department
	not frozen
}

allow if {
	input.subject.role == "auditor"
	input.action == "read"
	input.hour >= 8
	input.hour < 18
}

frozen if input.resource.state == "frozen"

frozen if {
	input.resource.state == "review"
	input.action != "read"
}

# Holds: the first rule compares departments, and the second one is for auditors.
never_across_departments if {
	allow
	input.subject.department != input.resource.department
	input.subject.role != "auditor"
}

# Holds: auditors read by day.
never_auditors_at_night if {
	allow
	input.subject.clearance < input.resource.level
	input.hour >= 18
}

# Holds.
never_a_frozen_change if {
	allow
	input.resource.state == "frozen"
	input.action == "write"
}

# Holds: under `not` a membership needs its operands, so that there is an action, and it is frozen.
never_a_change_in_review if {
	allow
	input.resource.state == "review"
	not input.action in {"read"}
}

# Broken: auditors read what is above their clearance.
never_above_clearance if {
	allow
	input.subject.clearance < input.resource.level
}

# Broken: clearances of any type are compared.
never_without_numbers if {
	allow
	is_string(input.subject.clearance)
}
