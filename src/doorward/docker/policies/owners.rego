# Whose the things are, where the data say `"owners": true`: what a request creates must have the label
# of the caller, and what it acts on must have it already. What is known of neither kind is refused.
package policy.docker.owners

enabled if data.docker.owners == true

label := "doorward.owner"

objections contains {"rule": "owners", "message": message, "line": ""} if {
	input.action in creating
	not input.User in input.owner.labels
	message := sprintf("a new object must have the label %s=%s", [label, input.User])
}

objections contains {"rule": "owners", "message": message, "line": ""} if {
	some name in input.owner.labels
	name != input.User
	message := sprintf("label %s may not name another user", [label])
}

objections contains {"rule": "owners", "message": "the owner is unknown: restart the plugin, which was started without owners", "line": ""} if {
	input.action in (creating | acting)
	not input.owner.asked == true
}

objections contains {"rule": "owners", "message": message, "line": ""} if {
	some object in input.owner.objects
	not is_usable(object)
	object.missing == false
	message := sprintf("%s %s is not yours", [object.kind, object.name])
}

objections contains {"rule": "owners", "message": message, "line": ""} if {
	some object in input.owner.objects
	not is_usable(object)
	object.missing == true
	message := sprintf("%s %s does not exist: create it with the label %s", [object.kind, object.name, label])
}

objections contains {"rule": "owners", "message": message, "line": ""} if {
	not input.action in ((creating | acting) | shared)
	message := sprintf("%s acts on objects of all users", [input.action])
}

# The daemon answers itself that an object is missing, but for a volume, which it would make, and for
# the name that an image gets.
is_usable(object) if {
	object.missing == true
	object.kind != "volume"
}

is_usable(object) if {
	object.missing == true
	input.action in {"volume.create", "volume.delete", "volume.inspect"}
}

is_usable(object) if {
	object.known == true
	object.owner == input.User
}

# An image that nobody has labelled was pulled, and is everybody's to use.
is_usable(object) if {
	object.known == true
	object.kind == "image"
	object.owner == ""
	input.action in {
		"container.create", "image.history", "image.inspect", "image.pull", "image.save",
		"service.create", "service.update",
	}
}

creating := {
	"config.create", "config.update", "container.create", "image.build", "network.create",
	"secret.create", "secret.update", "service.create", "service.update", "volume.create",
}

acting := {
	"config.delete", "config.inspect", "container.archive.get", "container.archive.put",
	"container.archive.stat", "container.attach", "container.changes", "container.delete",
	"container.exec", "container.export", "container.inspect", "container.kill", "container.logs",
	"container.pause", "container.rename", "container.resize", "container.restart",
	"container.start", "container.stats", "container.stop", "container.top", "container.unpause",
	"container.update", "container.wait", "exec.inspect", "exec.resize", "exec.start",
	"image.delete", "image.history", "image.inspect", "image.push", "image.save", "image.tag",
	"network.connect", "network.delete", "network.disconnect", "network.inspect", "secret.delete",
	"secret.inspect", "service.delete", "service.inspect", "service.logs", "volume.delete",
	"volume.inspect",
}

# What has no owner. Lists and events show everybody's things: a plugin cannot change an answer.
shared := {
	"build.session", "config.list", "container.list", "image.distribution", "image.list", "image.pull",
	"image.search", "network.list", "node.inspect", "node.list", "plugin.inspect", "plugin.list",
	"secret.list", "service.list", "system.auth", "system.df", "system.events", "system.info",
	"system.ping", "system.version", "task.list", "volume.list",
}
