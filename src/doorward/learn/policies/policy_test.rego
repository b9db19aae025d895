# Tests of a learned policy. This text is the same for every log: the requests are data, one that is
# allowed and one that is denied for each rule. Names of persons in them are replaced, and so are the
# words of closed sets. Tokens are not verified here: their claims are in the requests.
package learned.authz_test

import data.learned.authz

test_each_rule_allows_its_request if {
	every each in data.learned.tests.allowed {
		each.rule in authz.rules with input as each.input
			with io.jwt.decode_verify as verified
			with data.token as {"secret": "test"}
			with data.learned.sets as data.learned.tests.sets
	}
}

test_each_rule_has_a_request_that_is_denied if {
	every each in data.learned.tests.denied {
		not authz.allow with input as each.input
			with io.jwt.decode_verify as verified
			with data.token as {"secret": "test"}
			with data.learned.sets as data.learned.tests.sets
	}
}

test_nobody_without_claims_is_allowed if {
	every each in data.learned.tests.allowed {
		not authz.allow with input as object.remove(each.input, data.learned.tests.identity)
			with io.jwt.decode_verify as verified
			with data.token as {"secret": "test"}
			with data.learned.sets as data.learned.tests.sets
	}
}

verified(_, _) := [true, {}, input.claims]
