# Which actions each role may ask for. A client certificate names a user; everyone on the Unix socket
# has the roles of `local_roles`. A certificate without a name is nobody and has no role.
package policy.docker.roles

import data.policy.docker.owners
import data.policy.docker.recipes

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

# Building is a role of its own, beside others. `build.files` is not an action but the permission for what
# no request shows: the images that a Dockerfile starts from, and the URLs that it adds, which the
# daemon fetches from the network of the host.
builder_actions := {"build.cancel", "build.files", "build.session", "image.build"}

# Builds of a client that sends its files as an archive, behind the proxy, which reads the Dockerfile: its
# images, URLs and entitlements are judged by the data.
image_builder_actions := {"build.cancel", "image.build"}

# To log in at a registry that the daemon does not show. The daemon contacts whatever host is named.
login_actions := {"registry.login", "system.auth"}

# BuildKit's whole interface, of which the daemon shows no call: the network of the host (unless
# daemon.json says `"builder": {"Entitlements": {"network-host": false}}`), no limits, the caches of
# other users. Clients with buildx need it.
buildkit_actions := builder_actions | {"build.grpc"}

operator_actions := ((developer_actions | builder_actions) | login_actions) | {
	"build.prune", "config.create", "config.delete", "config.inspect",
	"config.list", "config.update", "container.archive.get", "container.archive.put",
	"container.commit", "container.export", "container.prune", "image.delete",
	"image.import", "image.load", "image.prune", "image.push", "image.save", "image.tag",
	"network.prune", "secret.create", "secret.delete", "secret.inspect", "secret.list",
	"secret.update", "service.create", "service.delete", "service.update", "volume.prune",
}

actions := {
	"viewer": viewer_actions,
	"developer": developer_actions,
	"builder": builder_actions,
	"image-builder": image_builder_actions,
	"buildkit": buildkit_actions,
	"login": login_actions,
	"operator": operator_actions,
}

held contains role if {
	input.identified == true
	some role in data.docker.users[input.User]
}

# The groups of a user that the proxy knows by the socket.
held contains role if {
	input.identified == true
	input.AuthMethod == "peer"
	some group in input.caller.groups
	some role in data.docker.groups[group]
}

held contains role if {
	local
	some role in data.docker.local_roles
}

# Only the Unix socket has no authentication. Where things have owners, nobody there has a role: the
# daemon does not say who calls. A request does not say on which socket it came: while
# the daemon listens elsewhere too, and does not verify who calls there, nobody is local.
local if {
	input.identified == false
	input.AuthMethod == ""
	count(input.open_listeners) == 0
	not owners.enabled
}

admin if "admin" in held

# What no route of the engine matches is nobody's: nobody knows what it does.
permitted if {
	admin
	input.action != "unknown"
}

permitted if grants(input.action)

# Whom the guards are for.
guarded if {
	permitted
	not admin
}

# Whether a role of the user gives a permission: one of these, one of a program, one of the data.
grants(permission) if {
	some role in held
	permission in actions[role]
}

grants(permission) if {
	some role in held
	permission in recipes.roles[role]
}

grants(permission) if {
	some role in held
	permission in data.docker.roles[role].actions
}

# The line of the data that would give the permission, with the least role that has it.
default line := ""

line := sprintf("%q: {%q: [%q]}", ["users", input.User, least]) if input.identified == true

line := sprintf("%q: [%q]", ["local_roles", least]) if local

least := holders[0] if count(holders) > 0

else := "admin"

holders := [role |
	some role in ["viewer", "developer", "builder", "login", "buildkit", "operator"]
	input.action in actions[role]
]

default name := "a client without a name"

name := sprintf("user %s", [input.User]) if input.identified == true

name := "a local user" if local
