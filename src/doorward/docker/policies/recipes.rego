# Roles of programs that get a socket of their own through the proxy: what each of them asks for, and
# nothing else. The guards are for all of them, as for people.
package policy.docker.recipes

looking := {"system.info", "system.ping", "system.version"}

watching := {"container.inspect", "container.list", "system.events"} | looking

watching_swarm := {"network.list", "node.inspect", "node.list", "service.list", "task.list"}

# Reads labels to find out where to send requests.
roles["traefik"] := watching

roles["traefik-swarm"] := watching | watching_swarm

roles["uptime-kuma"] := {"container.inspect", "container.list"} | looking

roles["homepage"] := ({"container.inspect", "container.list", "container.stats"} | looking) | watching_swarm

roles["dozzle"] := watching | {"container.logs", "container.stats"}

roles["dozzle-actions"] := roles.dozzle | {"container.restart", "container.start", "container.stop"}

roles["diun"] := (watching | watching_swarm) | {"image.inspect", "image.list"}

# Creates again what it replaces, with the same mounts and ports: the guards judge them.
roles["watchtower"] := watching | {
	"container.create", "container.delete", "container.kill", "container.rename",
	"container.start", "container.stop", "container.wait", "image.delete", "image.distribution",
	"image.inspect", "image.list", "image.pull", "network.connect", "network.disconnect",
	"network.inspect",
}

roles["watchtower-hooks"] := roles.watchtower | {"container.exec", "exec.inspect", "exec.start"}

# Runs jobs in containers: creates, fills, watches and removes them, their networks and volumes.
running := watching | {
	"container.archive.get", "container.archive.put", "container.archive.stat",
	"container.attach", "container.create", "container.delete", "container.exec",
	"container.kill", "container.logs", "container.pause", "container.rename",
	"container.resize", "container.restart", "container.start", "container.stats",
	"container.stop", "container.top", "container.unpause", "container.wait", "exec.inspect",
	"exec.resize", "exec.start", "image.inspect", "image.list", "image.pull",
	"network.connect", "network.create", "network.delete", "network.disconnect",
	"network.inspect", "network.list", "volume.create", "volume.delete", "volume.inspect",
	"volume.list",
}

roles["gitlab-runner"] := running

roles["gitea-runner"] := running

roles["testcontainers"] := running | {"build.files", "image.build", "image.delete", "image.tag"}

# Manages everything that its users may.
roles["portainer"] := running | {
	"build.files", "config.inspect", "config.list", "container.changes", "container.commit",
	"container.export", "container.prune", "container.update", "image.build", "image.delete",
	"image.history", "image.load", "image.prune", "image.push", "image.save", "image.search",
	"image.tag", "network.prune", "node.inspect", "node.list", "plugin.inspect", "plugin.list",
	"secret.inspect", "secret.list", "service.inspect", "service.list", "service.logs",
	"swarm.inspect", "system.auth", "system.df", "task.inspect", "task.list", "task.logs",
	"volume.prune",
}
