package people_test

test_guests_read if data.people.allow with input as {"method": "GET", "role": "guest"}

test_guests_create_nobody if {
	not data.people.allow with input as {"method": "POST", "role": "guest", "body": {"firstname": "Eve"}}
}
