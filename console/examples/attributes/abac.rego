package abac

default allow := false

allow if {
	input.action == "read"
	input.user.department == input.document.department
	input.user.clearance >= input.document.level
	is_office_hour
}

is_office_hour if {
	[hour, _, _] := time.clock(input.time_ns)
	hour >= 8
	hour < 18
}
