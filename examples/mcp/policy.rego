# What agents may do: which tools each of them sees, and which arguments and amounts are allowed.
package mcp

default allow := false

agent := data.agents[input.user.id]

# An agent sees the tools whose tags it has.
sees if {
	agent
	every tag in input.tags {
		tag in agent.tags
	}
	count(input.tags) > 0
}

allow if {
	input.method == "tools/list"
	sees
}

# Reading is allowed as often as an agent likes.
allow if {
	input.method == "tools/call"
	sees
	input.tags == ["read"]
}

# A refund has a limit, and an agent has a budget of refunds an hour.
allow := {"allowed": true, "budget": {
	"key": concat(":", ["refund", input.user.id]),
	"limit": agent.refunds_an_hour,
	"seconds": 3600,
}} if {
	input.method == "tools/call"
	sees
	input.name == "refund"
	input.arguments.amount <= agent.most
}

allow := {"allowed": false, "message": "refunds of this size are for people"} if {
	input.method == "tools/call"
	sees
	input.name == "refund"
	input.arguments.amount > agent.most
}
