package app_test

import data.app

test_a_reader_reads if app.allow with input as {"method": "GET", "user": "ann"}

test_a_stranger_does_not if not app.allow with input as {"method": "GET", "user": "eve"}

test_an_owner_writes if {
	app.allow with input as {"method": "PUT", "path": ["notes", "eve"], "user": "eve"}
}
