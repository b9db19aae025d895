# What agents may do with a server of the official SDK.
package mcp

default allow := false

agent := data.agents[input.user.id]

sees if {
	count(input.tags) > 0
	every tag in input.tags {
		tag in agent.tags
	}
}

allow if {
	input.method == "tools/list"
	sees
}

allow if {
	input.method == "tools/call"
	sees
	within_limit
}

within_limit if not input.arguments.amount

within_limit if input.arguments.amount <= agent.most
