package people_test

test_guests_read if data.people.allow with input as {"method": "GET", "role": "guest"}

test_guests_create_nobody if {
	not data.people.allow with input as {"method": "POST", "role": "guest", "body": {"firstname": "Eve"}}
}

# A rule that must be true for no input: doorward proves it, or finds one.
never_guest_creates if {
	data.people.allow
	input.role == "guest"
	input.method != "GET"
}
