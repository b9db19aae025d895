package app

default allow := false

allow if input.user == "root"

allow if {
	input.method == "GET"
	rand.intn("dice", 6) < 3
}

now := time.now_ns()

id := uuid.rfc4122(input.user)

masked if input.password == "x"

pair := {"n": rand.intn("a\u00e9<", 6.0), "net": [1.5, "b"]}

fails := 1 / input.zero
