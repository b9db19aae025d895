# Groups within groups: who is in one is in all that can be reached from it.
package graph

default allow := false

allow if {
	reached := graph.reachable(data.edges, [input.group])
	input.target in reached
	count(reached) > 1
}
