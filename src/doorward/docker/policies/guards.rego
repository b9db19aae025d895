# What a request may not have, whatever its action, unless an admin makes it. Each objection names
# its rule, says what was wrong in a few words, and what in the data would allow it ("" if nothing
# does). What is of no type is `untyped` in the input: here only values of their types are judged.
# A setting that the data lacks is the strictest; a field that `not` needs has a default, since
# `not f(field)` says nothing where the field is missing.
package policy.docker.guards

import data.policy.docker.owners
import data.policy.docker.roles

defaults := {
	"archives": {"kinds": []},
	"builds": {
		"entitlements": [], "frontends": [], "options": [], "outputs": [], "raw": false,
		"unlimited": false,
	},
	"capabilities": {"allow": []},
	"images": {"allow": [], "require_digest": true},
	"logging": {"drivers": [], "options": []},
	"mounts": {"allow": [], "nfs": [], "volume_drivers": [], "volumes_from": false},
	"networks": {
		"drivers": [], "join_containers": false, "options": [], "services": [],
		"services_by_identifier": false, "subnets": [],
	},
	"ports": {"addresses": [], "first": 1024, "last": 65535, "ranges": []},
	"queries": {"unverified": []},
	"registries": {"allow": []},
	"remotes": {"allow": []},
	"runtimes": {"allow": []},
	"sysctls": {"allow": []},
	"ulimits": {"allow": []},
}

# What all users may choose, and what the roles of this user add to the lists.
setting(section, name) := value if {
	not has_roles
	value := data.docker[section][name]
}

else := array.concat(shared(section, name), added) if {
	has_roles
	is_array(shared(section, name))
	added := [value | some role in roles.held; some value in data.docker.roles[role][section][name]]
}

# A role may open what is closed to all; it closes nothing.
else := open if {
	has_roles
	is_boolean(defaults[section][name])
	open := defaults[section][name] == false
	some role in roles.held
	data.docker.roles[role][section][name] == open
}

else := shared(section, name)

has_roles if data.docker.roles

shared(section, name) := value if value := data.docker[section][name]

else := defaults[section][name]

# Write access here means control of the daemon or of the plugin. The plugin adds what this daemon
# and the plugin itself really use.
protected := array.concat(
	[
		"/boot/", "/dev/", "/etc/docker/", "/etc/doorward/", "/proc/", "/run/containerd/",
		"/run/docker/", "/run/docker.sock/", "/sys/", "/var/lib/containerd/", "/var/lib/docker/",
		"/var/run/docker.sock/",
	],
	[with_slash(path) | some path in object.get(input, "protected", [])],
)

# The line of the data that would allow a value.
adding(section, name, value) := sprintf("%q: {%q: %s}", [section, name, json.marshal(value)])

# What is of the type that the model has for it may be judged; nothing else may pass.
objections contains {"rule": "types", "message": message, "line": ""} if {
	some fault in input.untyped
	message := untyped_message(fault)
}

untyped_message(fault) := sprintf("%s must be %s", [fault.field, fault.type])

# What does not say what it is about is refused all the same.
untyped_message(fault) := "a field has no type" if not is_described(fault)

is_described(fault) if {
	fault.field
	fault.type
}

# What is missing could not be judged.
objections contains {"rule": "input", "message": message, "line": ""} if {
	not is_complete
	message := "beyond, query_trusted, unknown_fields or untyped is missing in the input"
}

is_complete if {
	is_array(input.beyond)
	is_array(input.unknown_fields)
	is_array(input.untyped)
	is_boolean(input.query_trusted)
}

objections contains {"rule": "input", "message": message, "line": ""} if {
	some view in beyond
	view != "body"
	object.get(input, view, null) == null
	message := sprintf("%s is missing in the input", [view])
}

objections contains {"rule": "input", "message": message, "line": ""} if {
	some view in beyond
	not view in views
	message := sprintf("%s is not known to the policy", [view])
}

# Apart from the one that names a field: an objection must not depend on its message.
objections contains {"rule": "fields", "message": "unknown fields are refused", "line": ""} if {
	count(input.unknown_fields) > 0
}

objections contains {"rule": "fields", "message": message, "line": ""} if {
	message := sprintf("field %v is unknown to the policy", [input.unknown_fields[0]])
}

objections contains {"rule": "query", "message": "a form in the body could replace the query", "line": ""} if {
	input.query_trusted == false
	not input.action in setting("queries", "unverified")
}

# What reaches out of its box: the request, and the container it is for, where the plugin was told
# to ask the daemon about it. One set of rules judges both.

subjects["request"] := input

subjects["container"] := input.container if {
	input.action in entering
	input.container.known == true
}

# What starts the processes of a container again: all of it is judged as if it were created now.
starting := {"container.restart", "container.start", "container.unpause"}

entering := starting | {
	"container.archive.get", "container.archive.put", "container.attach", "container.commit",
	"container.exec", "container.export", "container.rename", "container.update", "exec.start",
	"network.connect",
}

# What is created by a request, or would be by one that starts it again.
created["request"] := input

created["container"] := input.container if {
	input.action in starting
	input.container.known == true
}

objections contains objection if {
	owners.enabled
	some objection in owners.objections
}

refused if {
	roles.guarded
	count(objections) > 0
}

# The views that hold more than the model says is harmless; nothing else of a request is judged. Where
# harmless values are those that the daemon takes for its default, this is most of each request.
default beyond := []

beyond := input.beyond

views := {
	"archive", "body", "build", "cgroup", "checkpoint", "container", "devices", "image", "images", "logging",
	"mounts", "network", "ports", "registry", "remote", "resources", "security",
}

objections contains {"rule": fault.rule, "message": fault.message, "line": fault.line} if {
	some fault in faults
	fault.of == "request"
}

objections contains {"rule": "container", "message": message, "line": fault.line} if {
	some fault in faults
	fault.of == "container"
	not filled_in_by_the_daemon(fault)
	message := sprintf("container reaches the host: %s", [fault.message])
}

faults contains fault if {
	"container" in beyond
	some fault in container_faults
}

faults contains fault if {
	"devices" in beyond
	some fault in devices_faults
}

faults contains fault if {
	"mounts" in beyond
	some fault in mounts_faults
}

faults contains fault if {
	"ports" in beyond
	some fault in ports_faults
}

faults contains fault if {
	"security" in beyond
	some fault in security_faults
}

objections contains objection if {
	"archive" in beyond
	some objection in archive_objections
}

objections contains objection if {
	"body" in beyond
	some objection in body_objections
}

objections contains objection if {
	"build" in beyond
	some objection in build_objections
}

objections contains objection if {
	"cgroup" in beyond
	some objection in cgroup_objections
}

objections contains objection if {
	"checkpoint" in beyond
	some objection in checkpoint_objections
}

objections contains objection if {
	"container" in beyond
	some objection in container_objections
}

objections contains objection if {
	"image" in beyond
	some objection in image_objections
}

objections contains objection if {
	"images" in beyond
	some objection in image_objections
}

objections contains objection if {
	"logging" in beyond
	some objection in logging_objections
}

objections contains objection if {
	"mounts" in beyond
	some objection in mounts_objections
}

objections contains objection if {
	"network" in beyond
	some objection in network_objections
}

objections contains objection if {
	"registry" in beyond
	some objection in registry_objections
}

objections contains objection if {
	"remote" in beyond
	some objection in remote_objections
}

objections contains objection if {
	"resources" in beyond
	some objection in resources_objections
}

# What has to be stated is missing where it is harmless.
objections contains objection if {
	count(ceilings) > 0
	some objection in limit_objections
}

container_faults contains {"of": "container", "rule": "types", "message": message, "line": ""} if {
	some fault in subjects.container.untyped
	message := untyped_message(fault)
}

# A path may lead elsewhere by the time the container starts: only who asks the daemon then can tell.
mounts_objections contains {"rule": "mounts", "message": message, "line": ""} if {
	not input.inspects == true
	some mount in input.mounts
	mount.type == "bind"
	allowed_source(mount)
	message := "host paths are mounted only where the plugin runs with --inspect"
}

container_objections contains {"rule": "container", "message": "container cannot be judged: the daemon did not describe it", "line": ""} if {
	input.action in entering
	input.container.asked == true
	input.container.known == false
	input.container.missing == false
}

# On older kernels every container has the host's namespace of control groups; the name of the
# runtime is the daemon's, and volumes of others were judged when they were given.
filled_in_by_the_daemon(fault) if fault.rule == "runtime"

filled_in_by_the_daemon(fault) if fault.message == "cgroup namespace of the host may not be used"

security_faults contains {"of": of, "rule": "input", "message": message, "line": ""} if {
	some of, subject in subjects
	some field in [
		"annotations", "apparmor", "cap_add", "host_namespaces", "joined_containers",
		"label_disabled", "masked_paths", "options", "privileged", "readonly_paths", "runtime",
		"seccomp", "sysctls",
	]
	object.get(subject, ["security", field], null) == null
	message := sprintf("security.%s is missing in the input", [field])
}

# The daemon fetches the source of an import or a build from the network of the host.
remote_objections contains {"rule": "remote", "message": message, "line": line} if {
	input.remote != ""
	not allowed_url(input.remote)
	message := sprintf("the daemon may not fetch %s", [input.remote])
	line := adding("remotes", "allow", [input.remote])
}

allowed_url(remote) if {
	some pattern in setting("remotes", "allow")
	glob.match(pattern, ["/"], remote)
}

# An archive that is copied is unpacked by root, perhaps in a folder of the host: with devices, and with
# files that give their rights to those who run them.
archive_objections contains {"rule": "archives", "message": message, "line": line} if {
	some kind in input.archive.kinds
	not kind in setting("archives", "kinds")
	message := concat("", [archive_messages[kind], archive_problem])
	line := adding("archives", "kinds", [kind])
}

default archive_problem := ""

archive_problem := concat("", [": ", input.archive.problem]) if {
	object.get(input.archive, "problem", "") != ""
}

archive_messages := {
	"capabilities": "archive has a file with capabilities",
	"device": "archive has a device",
	"setgid": "archive has a file with the set-group-ID bit",
	"setuid": "archive has a file with the set-user-ID bit",
	"unreadable": "archive cannot be judged",
}

# mounts

# Most mounts are of nothing that any rule is for.
unusual_mounts contains ["request", mount] if {
	some mount in input.mounts
	not is_usual(mount)
}

unusual_mounts contains ["container", mount] if {
	some mount in container_mounts
	not is_usual(mount)
}

default container_mounts := []

container_mounts := subjects.container.mounts if "container" in beyond

is_usual(mount) if {
	not mount.propagation in {"shared", "rshared"}
	mount.type in {"image", "tmpfs", "volume"}
}

is_usual(mount) if {
	not mount.propagation in {"shared", "rshared"}
	allowed_source(mount)
}

mounts_faults contains {"of": of, "rule": "mounts", "message": message, "line": line} if {
	some [of, mount] in unusual_mounts
	mount.type in {"bind", "device"}
	not allowed_source(mount)
	message := sprintf("host path %s may not be mounted", [mount.clean])
	line := line_for_mount(mount)
}

line_for_mount(mount) := "" if mount.type == "device"

else := "" if mount.resolved == ""

else := "" if touches_protected(mount.resolved)

else := adding("mounts", "allow", [path | some path in {mount.clean, mount.resolved}])

mounts_faults contains {"of": of, "rule": "mounts", "message": "mount may not propagate to the host", "line": ""} if {
	some [of, mount] in unusual_mounts
	mount.propagation in {"shared", "rshared"}
}

mounts_faults contains {"of": of, "rule": "mounts", "message": message, "line": ""} if {
	some [of, mount] in unusual_mounts
	not object.get(mount, "type", "") in {"bind", "device", "image", "nfs", "tmpfs", "volume"}
	message := sprintf("mount of %s cannot be judged", [mount.origin])
}

mounts_faults contains {"of": of, "rule": "mounts", "message": message, "line": line} if {
	some [of, mount] in unusual_mounts
	mount.type == "nfs"
	not allowed_export(mount.source)
	message := sprintf("export %s may not be mounted", [mount.source])
	line := adding("mounts", "nfs", [mount.source])
}

allowed_export(source) if {
	some pattern in setting("mounts", "nfs")
	glob.match(pattern, ["/"], source)
}

mounts_objections contains {"rule": "mounts", "message": "volumes of another container may not be used", "line": line} if {
	some mount in input.mounts
	mount.origin == "VolumesFrom"
	not setting("mounts", "volumes_from") == true
	line := adding("mounts", "volumes_from", true)
}

mounts_objections contains {"rule": "mounts", "message": message, "line": line} if {
	some mount in input.mounts
	mount.type == "volume"
	mount.origin != "VolumesFrom"
	driver := object.get(mount, "driver", "")
	not driver in setting("mounts", "volume_drivers")
	message := sprintf("volume driver %s may not be used", [driver])
	line := adding("mounts", "volume_drivers", [driver])
}

# A device node is not a path: in an allowed folder it may be any disk.
allowed_source(mount) if {
	mount.type == "bind"
	mount.unresolved == false
	strings.any_prefix_match(with_slash(mount.clean), folders)
	resolved := with_slash(mount.resolved)
	strings.any_prefix_match(resolved, folders)
	not strings.any_prefix_match(resolved, protected)
	not strings.any_prefix_match(protected, resolved)
}

# Those of all users, of this user, and of the roles of this user.
folders := allowed_folders if not has_more_folders

else := array.concat(array.concat(allowed_folders, own_folders), role_folders)

has_more_folders if has_roles

has_more_folders if count(user_folders) > 0

allowed_folders := [with_slash(folder) |
	some folder in data.docker.mounts.allow
	not contains(folder, "{user}")
]

default role_folders := []

role_folders := folders if {
	has_roles
	folders := [with_slash(folder) |
		some role in roles.held
		some folder in data.docker.roles[role].mounts.allow
		not contains(folder, "{user}")
	]
}

# Folders of each user: of one whom a certificate names, and whose name is one part of a path.
user_folders := [with_slash(folder) |
	some folder in data.docker.mounts.allow
	contains(folder, "{user}")
]

default own_folders := []

own_folders := [replace(folder, "{user}", input.User) | some folder in user_folders] if {
	count(user_folders) > 0
	input.identified == true
	regex.match(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`, input.User)
}

touches_protected(path) if strings.any_prefix_match(with_slash(path), protected)

touches_protected(path) if strings.any_prefix_match(protected, with_slash(path))

with_slash(path) := concat("", [trim_right(path, "/"), "/"])

# security

security_faults contains {"of": of, "rule": "privileged", "message": "privileged is not allowed", "line": ""} if {
	some of, subject in subjects
	subject.security.privileged == true
}

security_faults contains {"of": of, "rule": "capabilities", "message": message, "line": line} if {
	some of, subject in subjects
	some capability in subject.security.cap_add
	not capability in setting("capabilities", "allow")
	message := sprintf("capability %s is not allowed", [capability])
	line := adding("capabilities", "allow", [capability])
}

security_faults contains {"of": of, "rule": "profiles", "message": message, "line": ""} if {
	some of, subject in subjects
	some name in ["seccomp", "apparmor"]
	subject.security[name] != "default"
	message := sprintf("%s profile may not be changed", [name])
}

security_faults contains {"of": of, "rule": "profiles", "message": "SELinux label may not be disabled", "line": ""} if {
	some of, subject in subjects
	subject.security.label_disabled == true
}

security_faults contains {"of": of, "rule": "profiles", "message": message, "line": ""} if {
	some of, subject in subjects
	some option in subject.security.options
	key := split(option, "=")[0]
	not key in {"apparmor", "no-new-privileges", "seccomp", "systempaths"}
	message := sprintf("security option %s is not allowed", [key])
}

# The daemon may be told to forbid them for all.
security_faults contains {"of": of, "rule": "profiles", "message": message, "line": ""} if {
	some of, subject in subjects
	some option in subject.security.options
	startswith(option, "no-new-privileges")
	not option in {"no-new-privileges", "no-new-privileges=true"}
	message := "no-new-privileges may not be turned off"
}

security_faults contains {"of": of, "rule": "profiles", "message": "paths of the system may not be unmasked", "line": ""} if {
	some of, subject in subjects
	some name in ["masked_paths", "readonly_paths"]
	subject.security[name] != "default"
}

security_faults contains {"of": of, "rule": "namespaces", "message": message, "line": ""} if {
	some of, subject in subjects
	some namespace in subject.security.host_namespaces
	message := sprintf("%s namespace of the host may not be used", [namespace])
}

security_faults contains {"of": of, "rule": "namespaces", "message": "namespace of a container may not be joined", "line": line} if {
	some of, subject in subjects
	not setting("networks", "join_containers") == true
	count(subject.security.joined_containers) > 0
	line := adding("networks", "join_containers", true)
}

devices_faults contains {"of": of, "rule": "devices", "message": "devices are not allowed", "line": ""} if {
	some of, subject in subjects
	subject.devices.any == true
}

security_faults contains {"of": of, "rule": "sysctls", "message": message, "line": line} if {
	some of, subject in subjects
	some name, _ in subject.security.sysctls
	not name in setting("sysctls", "allow")
	message := sprintf("sysctl %s is not allowed", [name])
	line := adding("sysctls", "allow", [name])
}

security_faults contains {"of": of, "rule": "runtime", "message": message, "line": line} if {
	some of, subject in subjects
	subject.security.runtime != ""
	not subject.security.runtime in setting("runtimes", "allow")
	message := sprintf("runtime %s is not allowed", [subject.security.runtime])
	line := adding("runtimes", "allow", [subject.security.runtime])
}

security_faults contains {"of": of, "rule": "annotations", "message": message, "line": ""} if {
	some of, subject in subjects
	some name, _ in subject.security.annotations
	message := sprintf("annotation %s for the runtime is not allowed", [name])
}

cgroup_objections contains {"rule": "cgroup", "message": "parent of the control group may not be chosen", "line": ""} if {
	input.cgroup.parent != ""
}

checkpoint_objections contains {"rule": "checkpoint", "message": "folder of the checkpoint may not be chosen", "line": ""} if {
	input.checkpoint.directory != ""
}

# logs: a driver sends what a container writes from the host's network, and opens host sockets

logging_objections contains {"rule": "logging", "message": message, "line": line} if {
	input.logging.driver != ""
	not input.logging.driver in setting("logging", "drivers")
	message := sprintf("log driver %s is not allowed", [input.logging.driver])
	line := adding("logging", "drivers", [input.logging.driver])
}

logging_objections contains {"rule": "logging", "message": message, "line": line} if {
	some option in input.logging.options
	not option in setting("logging", "options")
	message := sprintf("log option %s is not allowed", [option])
	line := adding("logging", "options", [option])
}

# services

body_objections contains {"rule": "services", "message": "service may not install a plugin", "line": ""} if {
	input.action in {"service.create", "service.update"}
	not runs_containers
}

runs_containers if {
	task := object.get(input.body, "TaskTemplate", {})
	object.get(task, "PluginSpec", null) == null
	object.get(task, "NetworkAttachmentSpec", null) == null
	object.get(task, "Runtime", "") in {"", "container"}
}

body_objections contains {"rule": "services", "message": message, "line": ""} if {
	input.action in {"service.create", "service.update"}
	some name in input.network.identifiers
	not name in setting("networks", "services")
	not setting("networks", "services_by_identifier") == true
	message := sprintf("network %s of a service could be an identifier: use another name", [name])
}

# builds

# Behind the proxy, a build is decided twice: before its archive, and when its Dockerfile was read. Whose
# images it takes is not known to the owners of things.
build_objections contains {"rule": "builds", "message": files_message, "line": ""} if {
	input.action == "image.build"
	not judged_files
	not roles.grants("build.files")
}

judged_files if {
	input.build.files in {"pending", "read"}
	not owners.enabled
}

default files_message := "files of a build cannot be judged"

files_message := sprintf("files of a build cannot be judged: %s", [input.build.problem]) if {
	object.get(input.build, "problem", "") != ""
}

# What a builder is asked for, as far as somebody judges it: by a call of BuildKit, or by a Dockerfile
# of somebody who may not build whatever it says.
default asked_build := {"entitlements": [], "frontend": "", "images": [], "remotes": []}

asked_build := object.union(input.build, {"images": [], "remotes": []}) if input.action == "build.grpc"

asked_build := input.build if {
	input.action == "image.build"
	not roles.grants("build.files")
}

remote_objections contains {"rule": "remote", "message": message, "line": line} if {
	some remote in asked_build.remotes
	not allowed_url(remote)
	message := sprintf("the daemon may not fetch %s", [remote])
	line := adding("remotes", "allow", [remote])
}

build_objections contains {"rule": "builds", "message": message, "line": line} if {
	some output in input.build.outputs
	not output in setting("builds", "outputs")
	message := sprintf("output %s of a build is not allowed", [output])
	line := adding("builds", "outputs", [output])
}

# Calls of BuildKit, of which the proxy reads those that build. What their fields are not all known of
# is refused, as is what is written in a language that nobody judges here.
build_objections contains {"rule": "builds", "message": "the request of BuildKit cannot be read", "line": ""} if {
	input.action == "build.grpc"
	not is_readable
}

is_readable if input.build.readable == true

build_objections contains {"rule": "builds", "message": message, "line": line} if {
	input.action == "build.grpc"
	input.build.raw == true
	not setting("builds", "raw") == true
	message := "instructions of BuildKit's own (LLB, source policies) are not allowed"
	line := adding("builds", "raw", true)
}

build_objections contains {"rule": "builds", "message": message, "line": line} if {
	some entitlement in asked_build.entitlements
	not entitlement in setting("builds", "entitlements")
	message := sprintf("entitlement %s of a build is not allowed", [entitlement])
	line := adding("builds", "entitlements", [entitlement])
}

build_objections contains {"rule": "builds", "message": message, "line": line} if {
	asked_build.frontend != ""
	not asked_build.frontend in setting("builds", "frontends")
	message := sprintf("frontend %s of a build is not allowed", [asked_build.frontend])
	line := adding("builds", "frontends", [asked_build.frontend])
}

build_objections contains {"rule": "builds", "message": message, "line": line} if {
	some option in input.build.options
	not option in setting("builds", "options")
	message := sprintf("option %s of a build is not allowed", [option])
	line := adding("builds", "options", [option])
}

# BuildKit takes no limits.
build_objections contains {"rule": "builds", "message": "BuildKit does not apply the limits: build with DOCKER_BUILDKIT=0", "line": ""} if {
	input.build.buildkit == true
	limited("memory")
	count({"cpus", "memory"} & object.keys(ceilings)) > 0
}

# images

image_objections contains {"rule": "images", "message": message, "line": line} if {
	some image in asked_images
	not allowed_image(image)
	message := sprintf("image %s is not allowed", [image.reference])
	line := line_for_image(image)
}

line_for_image(image) := "" if image.unresolved

else := adding("images", "allow", [image.name])

image_objections contains {"rule": "images", "message": "image must be named by its digest", "line": ""} if {
	input.action in {"container.create", "service.create", "service.update", "image.pull"}
	input.image.digest == ""
	digest_required != false
}

image_objections contains {"rule": "images", "message": "image must be named by its digest", "line": ""} if {
	input.action == "container.create"
	some image in input.images
	image.digest == ""
	digest_required != false
}

digest_required := setting("images", "require_digest")

# The registry itself also says where the daemon goes next, from the host's network: only
# registries of the list are contacted.
registry_objections contains {"rule": "registries", "message": message, "line": line} if {
	some registry in contacted
	not allowed_registry(registry)
	message := sprintf("registry %s may not be contacted", [registry])
	line := adding("registries", "allow", [registry])
}

contacted contains input.registry if input.registry != ""

contacted contains input.image.registry if {
	input.action in {"image.pull", "image.push", "service.create", "service.update"}
	input.image.reference != ""
}

contacted contains image.registry if {
	input.action in {"build.grpc", "image.build"}
	some image in input.build.cache_from
}

contacted contains image.registry if some image in asked_build.images

allowed_registry(registry) if {
	some pattern in setting("registries", "allow")
	glob.match(pattern, [], registry)
}

# From 20.10.27 on the daemon does not show the body of a login, which says to whom it sends it.
registry_objections contains {"rule": "registries", "message": message, "line": line} if {
	input.action == "system.auth"
	input.body == null
	not roles.grants("registry.login")
	message := "the registry of a login is not shown by this daemon"
	line := sprintf("%q: {%q: [\"login\", …]}", ["users", object.get(input, "User", "")])
}

asked_images contains input.image if {
	input.action in {
		"container.create", "container.commit", "image.pull", "image.import", "image.push",
		"image.tag", "service.create", "service.update",
	}
	input.image.reference != ""
}

asked_images contains image if {
	input.action == "container.create"
	some image in input.images
}

asked_images contains input.container.image if {
	input.action in starting
	input.container.known == true
}

asked_images contains image if {
	input.action in {"build.grpc", "image.build"}
	some image in array.concat(input.images, input.build.cache_from)
}

asked_images contains image if some image in asked_build.images

allowed_images := setting("images", "allow")

allowed_image(_) if "**" in allowed_images

allowed_image(image) if {
	image.unresolved == false
	some pattern in allowed_images
	glob.match(pattern, ["/"], image.name)
}

# limits: of what is there after the request. To the daemon 0 and -1 are "no limit".

# Those of all users, or what the roles of this user say in their place: the widest.
ceilings := shared_ceilings if not has_role_limits

else := {name: ceiling |
	some name in (object.keys(shared_ceilings) | object.keys(role_limits))
	ceiling := ceiling_of(name)
	ceiling != 0
}

shared_ceilings[name] := ceiling if {
	some name, ceiling in data.docker.limits
	ceiling > 0
}

has_role_limits if {
	some role in data.docker.roles
	role.limits
}

role_limits[name] contains limit if {
	some role in roles.held
	some name, limit in data.docker.roles[role].limits
	is_number(limit)
	limit >= 0
}

ceiling_of(name) := 0 if 0 in role_limits[name]

else := max(role_limits[name]) if role_limits[name]

else := shared_ceilings[name]

limit_objections contains {"rule": "limits", "message": message, "line": ""} if {
	some name, ceiling in ceilings
	limited(name)
	not within(object.get(input.resources, name, 0), ceiling)
	message := sprintf("%s must be limited to %v", [name, ceiling])
}

# Without a limit of its own, swap is as much again as memory.
limit_objections contains {"rule": "limits", "message": message, "line": ""} if {
	limited("memory")
	swap := input.resources.memory_swap
	swap != 0
	not within(swap, 2 * ceilings.memory)
	message := sprintf("memory and swap must be limited to %v", [2 * ceilings.memory])
}

limited(_) if input.action in {"container.create", "service.create", "service.update"}

# A build has no limit of processes.
limited(name) if {
	input.action == "image.build"
	name in {"cpus", "memory"}
	not unlimited_build
}

unlimited_build if {
	input.build.buildkit == true
	setting("builds", "unlimited") == true
}

# An update is judged by what it makes of the container; where the plugin does not ask the daemon,
# by itself, and then it has to say all that the limit is made of.
limited(name) if {
	input.action == "container.update"
	some field in parts[name]
	field in input.resources.changed
}

parts := {
	"cpus": {"cpu_period", "cpu_quota", "nano_cpus"},
	"memory": {"memory", "memory_swap"},
	"pids": {"pids"},
}

limit_objections contains {"rule": "limits", "message": "period and quota of the CPU must be set together", "line": ""} if {
	input.action == "container.update"
	input.container.known == false
	ceilings.cpus
	count({"cpu_period", "cpu_quota"} & {field | some field in input.resources.changed}) == 1
}

# A ceiling that is not a number holds nothing.
within(value, ceiling) if {
	is_number(ceiling)
	value > 0
	value <= ceiling
}

resources_objections contains {"rule": "limits", "message": "the OOM killer may not be disabled", "line": ""} if {
	input.resources.oom_kill_disable == true
}

resources_objections contains {"rule": "limits", "message": "the OOM score may not be below 0", "line": ""} if {
	input.resources.oom_score_adj < 0
}

# A limit of a process replaces the one that the daemon has for all. Who runs in real time, or before
# all others, takes the processors of the host.
resources_objections contains {"rule": "limits", "message": message, "line": line} if {
	some ulimit in input.resources.ulimits
	not allowed_ulimit(ulimit)
	message := sprintf("ulimit %s is not allowed", [ulimit.name])
	line := line_for_ulimit(ulimit.name)
}

line_for_ulimit(name) := "" if lower(name) in {"nice", "rtprio"}

else := adding("ulimits", "allow", [name])

allowed_ulimit(ulimit) if {
	not lower(ulimit.name) in {"nice", "rtprio"}
	ulimit.name in setting("ulimits", "allow")
}

resources_objections contains {"rule": "limits", "message": "real-time scheduling is not allowed", "line": ""} if {
	input.resources.cpu_realtime_runtime != 0
}

# ports and networks

ports_faults contains {"of": of, "rule": "ports", "message": message, "line": line} if {
	some of, subject in created
	some port in subject.ports.published
	not allowed_port(port)
	message := sprintf("host port %s may not be published", [port.host])
	line := line_for_port(port)
}

line_for_port(port) := adding("ports", "first", port.first) if {
	port.first > 0
	port.first < setting("ports", "first")
}

else := adding("ports", "last", port.last) if port.last > setting("ports", "last")

else := ""

# Who listens where the decision point is expected becomes the decision point.
ports_faults contains {"of": of, "rule": "ports", "message": message, "line": ""} if {
	some of, subject in created
	some port in subject.ports.published
	some own in object.get(input, "protected_ports", [])
	port.first <= own
	port.last >= own
	message := sprintf("host port %d is the decision point's", [own])
}

# daemon.json may say on which address ports are published.
ports_faults contains {"of": of, "rule": "ports", "message": message, "line": line} if {
	some of, subject in created
	some port in subject.ports.published
	not object.get(port, "host_ip", "") in {"", "127.0.0.1", "::1"}
	not port.host_ip in setting("ports", "addresses")
	message := sprintf("ports may not be published on address %s", [port.host_ip])
	line := adding("ports", "addresses", [port.host_ip])
}

allowed_port(port) if port.host in {"", "0"}

allowed_port(port) if {
	port.first >= setting("ports", "first")
	port.last <= setting("ports", "last")
	port.first <= port.last
}

allowed_port(port) if {
	some [first, last] in setting("ports", "ranges")
	is_number(first)
	is_number(last)
	port.first >= first
	port.last <= last
	port.first <= port.last
}

network_objections contains {"rule": "networks", "message": message, "line": line} if {
	input.action == "network.create"
	not input.network.driver in setting("networks", "drivers")
	message := sprintf("network driver %s is not allowed", [input.network.driver])
	line := adding("networks", "drivers", [input.network.driver])
}

network_objections contains {"rule": "networks", "message": message, "line": ""} if {
	some range in object.get(input.network, "taken", [])
	message := sprintf("subnet overlaps %s, which the host uses", [range])
}

# Options reach the host's own interfaces: a bridge of another name may be any bridge of the host.
network_objections contains {"rule": "networks", "message": message, "line": line} if {
	input.action == "network.create"
	some option in input.network.options
	not option in setting("networks", "options")
	message := sprintf("network option %s is not allowed", [option])
	line := adding("networks", "options", [option])
}

# A network may say on which address its containers publish, where daemon.json says another one.
network_objections contains {"rule": "ports", "message": message, "line": line} if {
	input.action == "network.create"
	address := input.body.Options["com.docker.network.bridge.host_binding_ipv4"]
	not address in {"", "127.0.0.1"}
	not address in setting("ports", "addresses")
	message := sprintf("ports may not be published on address %s", [address])
	line := adding("ports", "addresses", [address])
}

network_objections contains {"rule": "networks", "message": message, "line": ""} if {
	input.action == "network.create"
	not input.network.ipam_driver in {"", "default"}
	message := sprintf("address driver %s is not allowed", [input.network.ipam_driver])
}

# The host sends what is for these addresses into the network.
network_objections contains {"rule": "networks", "message": message, "line": line} if {
	some subnet in input.network.subnets
	not allowed_subnet(subnet)
	message := sprintf("subnet %s is not allowed", [subnet])
	line := adding("networks", "subnets", [subnet])
}

allowed_subnet(subnet) if {
	some allowed in setting("networks", "subnets")
	net.cidr_contains(allowed, subnet)
}
