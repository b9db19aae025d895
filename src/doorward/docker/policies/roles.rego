# Which actions each role may ask for. A client certificate names a user; everyone on the Unix socket
# has the roles of `local_roles`. A certificate without a name is nobody and has no role.
package policy.docker.roles

viewer_actions := {
	"container.archive.stat", "container.changes", "container.inspect", "container.list",
	"container.logs", "container.stats", "container.top", "exec.inspect", "image.distribution",
	"image.history", "image.inspect", "image.list", "image.search", "network.inspect",
	"network.list", "node.inspect", "node.list", "plugin.inspect", "plugin.list",
	"service.inspect", "service.list", "service.logs", "system.df", "system.events",
	"system.info", "system.ping", "system.version", "task.inspect", "task.list", "task.logs",
	"volume.inspect", "volume.list",
}

developer_actions := viewer_actions | {
	"container.attach", "container.create", "container.delete", "container.exec",
	"container.kill", "container.pause", "container.rename", "container.resize",
	"container.restart", "container.start", "container.stop", "container.unpause",
	"container.update", "container.wait", "exec.resize", "exec.start", "image.pull",
	"network.connect", "network.create", "network.delete", "network.disconnect", "system.auth",
	"volume.create", "volume.delete",
}

operator_actions := developer_actions | {
	"build.cancel", "build.prune", "config.create", "config.delete", "config.inspect",
	"config.list", "config.update", "container.archive.get", "container.archive.put",
	"container.commit", "container.export", "container.prune", "image.build", "image.delete",
	"image.import", "image.load", "image.prune", "image.push", "image.save", "image.tag",
	"network.prune", "secret.create", "secret.delete", "secret.inspect", "secret.list",
	"secret.update", "service.create", "service.delete", "service.update", "volume.prune",
}

actions := {"viewer": viewer_actions, "developer": developer_actions, "operator": operator_actions}

held contains role if {
	input.identified == true
	some role in data.docker.users[input.User]
}

held contains role if {
	local
	some role in data.docker.local_roles
}

# Only the Unix socket has no authentication.
local if {
	input.identified == false
	input.AuthMethod == ""
}

admin if "admin" in held

# What no route of the engine matches is nobody's: nobody knows what it does.
permitted if {
	admin
	input.action != "unknown"
}

permitted if {
	some role in held
	input.action in actions[role]
}

default name := "a client without a name"

name := sprintf("user %s", [input.User]) if input.identified == true

name := "a local user" if local
