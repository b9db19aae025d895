package app

default allow := false

# Readers read.
allow if {
	input.method == "GET"
	input.user in data.readers
}

# Everybody may change what is theirs.
allow if {
	input.method in {"PUT"}
	input.path == ["notes", input.user]
}
