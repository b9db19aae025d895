package policy.docker.guards_test

import data.policy.docker.authz
import data.policy.docker.guards

plain := {
	"identified": false,
	"User": "",
	"AuthMethod": "",
	"action": "container.create",
	"unknown_fields": [],
	"untyped": [],
	"beyond": [view | some view in guards.views],
	"open_listeners": [],
	"inspects": true,
	"mounts": [],
	"security": {
		"privileged": false, "cap_add": [], "options": [], "seccomp": "default", "apparmor": "default",
		"label_disabled": false, "masked_paths": "default", "readonly_paths": "default",
		"host_namespaces": [], "joined_containers": [], "runtime": "", "sysctls": {},
		"annotations": {},
	},
	"resources": {"memory": 0, "memory_swap": 0, "cpus": 0, "pids": 0, "changed": [], "oom_kill_disable": false, "oom_score_adj": 0, "cpu_realtime_runtime": 0, "ulimits": []},
	"ports": {"published": []},
	"image": image("docker.io/library/busybox"),
	"body": {},
	"images": [],
	"network": {
		"driver": "", "names": [], "identifiers": [], "options": [], "subnets": [], "ipam_driver": "",
		"unresolved": false,
	},
	"devices": {"any": false},
	"cgroup": {"parent": ""},
	"checkpoint": {"directory": ""},
	"logging": {"driver": "", "options": []},
	"query_trusted": true,
	"remote": "",
	"registry": "",
	"build": {"buildkit": false, "session": false, "outputs": [], "cache_from": []},
	"archive": {"state": "hidden", "kinds": [], "problem": ""},
	"container": {"asked": false, "known": false, "missing": false},
}

image(name) := {"reference": name, "name": name, "digest": "", "unresolved": false}

bind(clean, resolved) := {
	"origin": "Binds", "type": "bind", "clean": clean, "resolved": resolved,
	"propagation": "", "driver": "", "unresolved": resolved == "",
}

with_security(changed) := object.union(plain, {"security": changed})

with_mounts(mounts) := object.union(plain, {"mounts": mounts})

objected(request) := {objection.rule | some objection in objections} if {
	objections := guards.objections with input as request
}

allowed_mounts := {"allow": ["/srv/data"], "volume_drivers": ["local"], "volumes_from": false}

objected_to_mount(mount) if {
	count(guards.objections) > 0 with input as with_mounts([mount])
		with data.docker.mounts as allowed_mounts
}

test_plain_container if objected(plain) == set()

test_plain_container_is_allowed if authz.allow with input as plain

test_mount_below_an_allowed_folder if {
	not objected_to_mount(bind("/srv/data/x", "/srv/data/x"))
	not objected_to_mount(bind("/srv/data", "/srv/data"))
}

test_mount_where_nobody_looks_at_the_start if {
	every inspects in [false, null] {
		request := object.union(with_mounts([bind("/srv/data", "/srv/data")]), {"inspects": inspects})
		objected(request) == {"mounts"} with data.docker.mounts as allowed_mounts
	}
}

test_mount_elsewhere if {
	every path in ["/", "/etc", "/srv", "/srv/database", "/srv/data2/x"] {
		objected_to_mount(bind(path, path))
	}
}

test_mount_by_a_link if objected_to_mount(bind("/srv/data/link", "/etc"))

test_mount_that_nobody_can_follow if objected_to_mount(bind("/srv/data/x", ""))

test_everything_allowed_still_protects_the_daemon if {
	every path in ["/", "/run", "/run/docker.sock", "/var/run/docker.sock", "/etc/docker/x", "/proc"] {
		count(guards.objections) > 0 with input as with_mounts([bind(path, path)])
			with data.docker.mounts as object.union(allowed_mounts, {"allow": ["/"]})
	}
}

test_nothing_configured_allows_no_mount if {
	count(guards.objections) > 0 with input as with_mounts([bind("/srv/data", "/srv/data")])
		with data.docker.mounts as {}
}

test_mount_that_propagates if {
	objected_to_mount(object.union(bind("/srv/data", "/srv/data"), {"propagation": "rshared"}))
}

test_volumes_from if {
	objected_to_mount({
		"origin": "VolumesFrom", "type": "volume", "clean": "", "resolved": "",
		"propagation": "", "driver": "", "unresolved": true,
	})
}

test_network_file_system if {
	objected_to_mount({
		"origin": "DriverOpts", "type": "filesystem", "clean": "", "resolved": "",
		"propagation": "", "driver": "local", "unresolved": true,
	})
}

test_volume_driver if {
	objected_to_mount({
		"origin": "Mounts", "type": "volume", "clean": "", "resolved": "",
		"propagation": "", "driver": "rexray", "unresolved": false,
	})
}

test_privileged if objected(with_security({"privileged": true})) == {"privileged"}

test_capability if {
	objected(with_security({"cap_add": ["SYS_ADMIN"]})) == {"capabilities"}
	objected(with_security({"cap_add": ["ALL"]})) == {"capabilities"}
	objected(with_security({"cap_add": ["NET_BIND_SERVICE"]})) == set()
}

test_profiles if {
	every changed in [
		{"seccomp": "unconfined"}, {"seccomp": "custom"}, {"apparmor": "unconfined"},
		{"label_disabled": true}, {"masked_paths": "none"}, {"readonly_paths": "custom"},
	] {
		objected(with_security(changed)) == {"profiles"}
	}
}

test_security_options if {
	objected(with_security({"options": ["label=type:unconfined_t"]})) == {"profiles"}
	objected(with_security({"options": ["writable-cgroups=true"]})) == {"profiles"}
	objected(with_security({"options": ["no-new-privileges=false"]})) == {"profiles"}
	objected(with_security({"options": ["no-new-privileges=true"]})) == set()
}

test_service_that_installs_a_plugin if {
	service := object.union(plain, {"action": "service.create", "body": {"TaskTemplate": {}}})
	objected(service) == set()
	every task in [{"Runtime": "plugin"}, {"PluginSpec": {"Remote": "evil"}}] {
		objected(object.union(service, {"body": {"TaskTemplate": task}})) == {"services"}
	}
}

test_service_in_a_network_by_its_identifier if {
	service := object.union(plain, {"action": "service.create", "body": {}})
	request := object.union(service, {"network": {"names": ["a1"], "identifiers": ["a1"]}})
	objected(request) == {"services"}
	count(guards.objections) == 0 with input as request with data.docker.networks.services as ["a1"]
}

entered(container) := objected(object.union(plain, {
	"action": "container.exec",
	"container": container,
}))

test_exec_into_a_container_that_reaches_the_host if {
	harmless := {
		"asked": true, "known": true, "missing": false, "mounts": [], "devices": {"any": false},
		"security": object.union(plain.security, {"runtime": "sysbox", "host_namespaces": ["cgroup"]}),
	}
	entered(harmless) == set()
	every changed in [
		{"security": {"privileged": true}}, {"security": {"host_namespaces": ["pid"]}},
		{"security": {"cap_add": ["SYS_ADMIN"]}}, {"security": {"masked_paths": "none"}},
		{"security": {"seccomp": "unconfined"}}, {"security": {"apparmor": "unconfined"}},
		{"security": {"options": ["label=type:x"]}}, {"security": {"seccomp": null}},
		{"devices": {"any": true}}, {"mounts": [bind("/etc", "/etc")]}, {"known": false},
	] {
		entered(object.union(harmless, changed)) == {"container"}
	}
	entered(object.union(harmless, {"known": false, "missing": true})) == set()
	entered({"asked": false, "known": false, "missing": false}) == set()
}

test_namespaces if {
	objected(with_security({"host_namespaces": ["pid"]})) == {"namespaces"}
	objected(with_security({"joined_containers": ["c"]})) == {"namespaces"}
}

test_runtime if objected(with_security({"runtime": "sysbox"})) == {"runtime"}

test_sysctl if objected(with_security({"sysctls": {"kernel.x": "1"}})) == {"sysctls"}

test_devices if objected(object.union(plain, {"devices": {"any": true}})) == {"devices"}

test_cgroup if objected(object.union(plain, {"cgroup": {"parent": "/x"}})) == {"cgroup"}

test_unknown_field if objected(object.union(plain, {"unknown_fields": ["X"]})) == {"fields"}

test_image_of_another_registry if {
	config := {"allow": ["docker.io/library/*", "r.io/team/**"], "require_digest": false}
	request := object.union(plain, {"image": image("evil.io/library/busybox")})
	guards.objections[_].rule == "images" with input as request with data.docker.images as config
	count(guards.objections) == 0 with input as plain with data.docker.images as config
	deep := object.union(plain, {"image": image("r.io/team/a/b")})
	count(guards.objections) == 0 with input as deep with data.docker.images as config
	unknown := object.union(plain, {"image": object.union(image("abc"), {"unresolved": true})})
	count(guards.objections) > 0 with input as unknown with data.docker.images as config
}

test_image_without_digest if {
	config := {"allow": ["**"], "require_digest": true}
	count(guards.objections) == 1 with input as plain with data.docker.images as config
	named := object.union(plain, {"image": {"digest": "sha256:x"}})
	count(guards.objections) == 0 with input as named with data.docker.images as config
}

test_limits if {
	config := {"memory": 1000, "cpus": 2, "pids": 0}
	count(guards.objections) == 2 with input as plain with data.docker.limits as config
	some_limits := object.union(plain, {"resources": {"memory": 1000, "cpus": 1.5}})
	count(guards.objections) == 0 with input as some_limits with data.docker.limits as config
	too_much := object.union(plain, {"resources": {"memory": 1001, "cpus": 2}})
	count(guards.objections) == 1 with input as too_much with data.docker.limits as config
	update := object.union(plain, {"action": "container.update"})
	count(guards.objections) == 0 with input as update with data.docker.limits as config
}

# Additions of a role, for its users alone.

adding_to_roles(settings) := {"networks": settings}

as_bob(changed) := object.union(plain, object.union({"identified": true, "User": "bob", "AuthMethod": "TLS"}, changed))

objected_to_bob(changed, held, settings) := {objection.rule | some objection in objections} if {
	objections := guards.objections with input as as_bob(changed)
		with data.docker.users as {"bob": held}
		with data.docker.roles as adding_to_roles(settings)
}

published(first, last) := {"ports": {"published": [{"host": "x", "first": first, "last": last}]}}

test_ports_of_a_role if {
	settings := {"ports": {"ranges": [[80, 80], [443, 445]]}}
	every ports in [[80, 80], [443, 445], [444, 444], [8080, 8080]] {
		objected_to_bob(published(ports[0], ports[1]), ["developer", "networks"], settings) == set()
	}
	every ports in [[79, 80], [80, 81], [443, 446], [0, 80], [445, 443]] {
		objected_to_bob(published(ports[0], ports[1]), ["developer", "networks"], settings) == {"ports"}
	}
	objected_to_bob(published(80, 80), ["developer"], settings) == {"ports"}
}

test_ports_of_a_role_that_are_no_ports if {
	every range in [[null, "z"], ["", ""], [80], 80, [1, "z"], [[], {}]] {
		objected_to_bob(published(80, 80), ["developer", "networks"], {"ports": {"ranges": [range]}}) == {"ports"}
	}
}

using(memory) := {"resources": {"memory": memory, "memory_swap": 0}}

test_ceilings_of_a_role_replace_those_of_all if {
	every limits in [{"memory": 200}, {"memory": 0}] {
		objected_to_bob(using(200), ["developer", "networks"], {"limits": limits}) == set() with data.docker.limits as {"memory": 100}
		objected_to_bob(using(200), ["developer"], {"limits": limits}) == {"limits"} with data.docker.limits as {"memory": 100}
	}
	objected_to_bob(using(200), ["developer", "networks"], {"limits": {"memory": 50}}) == {"limits"} with data.docker.limits as {"memory": 0}
}

test_the_widest_ceiling_of_several_roles if {
	roles_of_bob := {"small": {"limits": {"memory": 50}}, "large": {"limits": {"memory": 300}}}
	every memory, objected in {"300": set(), "301": {"limits"}, "0": {"limits"}} {
		request := as_bob(using(to_number(memory)))
		objections := guards.objections with input as request
			with data.docker.users as {"bob": ["developer", "small", "large"]}
			with data.docker.roles as roles_of_bob
			with data.docker.limits as {"memory": 100}
		{objection.rule | some objection in objections} == objected
	}
}

test_a_ceiling_that_is_no_number_holds_nothing if {
	every ceiling in ["1g", [], {"a": 1}] {
		objected(object.union(plain, using(1))) == {"limits"} with data.docker.limits as {"memory": ceiling}
	}
	every limits in [{"memory": "1g"}, {"memory": -1}, {"memory": null}] {
		objected_to_bob(using(200), ["developer", "networks"], {"limits": limits}) == {"limits"} with data.docker.limits as {"memory": 100}
	}
}

test_a_role_opens_what_is_closed_to_all if {
	settings := {"networks": {"join_containers": true}}
	joining := {"security": {"joined_containers": ["c"]}}
	objected_to_bob(joining, ["developer", "networks"], settings) == set()
	objected_to_bob(joining, ["developer"], settings) == {"namespaces"}
	objected_to_bob(joining, ["developer", "networks"], {"networks": {"join_containers": "yes"}}) == {"namespaces"}
}

test_a_role_closes_nothing if {
	settings := {"networks": {"join_containers": false}, "images": {"require_digest": true}}
	objected_to_bob({}, ["developer", "networks"], settings) == set()
}

test_digests_that_a_role_need_not_name if {
	objected_to_bob({}, ["developer", "networks"], {"images": {"require_digest": false}}) == set() with data.docker.images.require_digest as true
	objected_to_bob({}, ["developer"], {"images": {"require_digest": false}}) == {"images"} with data.docker.images.require_digest as true
}

test_ports if {
	port := {"host": "80", "first": 80, "last": 80}
	objected(object.union(plain, {"ports": {"published": [port]}})) == {"ports"}
	strange := {"host": "x", "first": 0, "last": 0}
	objected(object.union(plain, {"ports": {"published": [strange]}})) == {"ports"}
	high := {"host": "8080", "first": 8080, "last": 8090}
	objected(object.union(plain, {"ports": {"published": [high]}})) == set()
	chosen := {"host": "", "first": 0, "last": 0}
	objected(object.union(plain, {"ports": {"published": [chosen]}})) == set()
}

test_network_driver if {
	request := object.union(plain, {"action": "network.create", "network": {"driver": "macvlan"}})
	objected(request) == {"networks"}
}

test_admin_is_not_guarded if {
	request := object.union(
		with_security({"privileged": true}),
		{"identified": true, "User": "carol"},
	)
	authz.allow with input as request with data.docker.users as {"carol": ["admin"]}
	not authz.allow with input as request with data.docker.users as {"carol": ["operator"]}
}

update_objections(changed, resources, known) := objections if {
	update := object.union(plain, {
		"action": "container.update",
		"resources": object.union(resources, {"changed": changed}),
		"container": {"asked": known, "known": known, "mounts": [], "security": plain.security},
	})
	objections := guards.objections with input as update
		with data.docker.limits as {"memory": 1000, "cpus": 2, "pids": 10}
}

test_update_that_leaves_the_limits_alone if {
	count(update_objections(["restart"], {}, false)) == 0
	count(update_objections(["memory"], {"memory": 900}, false)) == 0
	count(update_objections(["cpu_period", "cpu_quota"], {"cpus": 2}, false)) == 0
}

test_update_that_lifts_a_limit if {
	every case in [
		[["pids"], {"pids": 0}], [["pids"], {"pids": -1}], [["cpu_quota"], {"cpus": 0}],
		[["cpu_period"], {"cpus": 0}], [["cpu_quota"], {"cpus": 1}],
		[["memory_swap"], {"memory": 0, "memory_swap": -1}],
		[["memory", "memory_swap"], {"memory": 900, "memory_swap": -1}],
		[["memory", "memory_swap"], {"memory": 900, "memory_swap": 2001}],
		[["nano_cpus"], {"cpus": 3}],
	] {
		count(update_objections(case[0], case[1], false)) > 0
	}
}

test_update_of_a_known_container_may_set_a_part if {
	count(update_objections(["cpu_quota"], {"cpus": 2}, true)) == 0
	count(update_objections(["cpu_period"], {"cpus": 50}, true)) > 0
}

test_build_has_limits_too if {
	config := {"memory": 1000, "cpus": 0, "pids": 10}
	build := object.union(plain, {"action": "image.build"})
	count(guards.objections) == 1 with input as build with data.docker.limits as config
	small := object.union(build, {"resources": {"memory": 500}})
	count(guards.objections) == 0 with input as small with data.docker.limits as config
}

test_device_node_below_an_allowed_folder if {
	node := object.union(bind("/srv/data/x", "/srv/data/x"), {"type": "device"})
	objected_to_mount(node)
}

test_query_that_a_form_could_replace if {
	request := object.union(plain, {"action": "image.build", "query_trusted": false})
	objected(request) == {"query"}
	count(guards.objections) == 0 with input as request
		with data.docker.queries as {"unverified": ["image.build"]}
}

test_remote_source_of_an_image if {
	request := object.union(plain, {"action": "image.import", "remote": "http://x.io/a.tar"})
	objected(request) == {"remote"}
	count(guards.objections) == 0 with input as request with data.docker.remotes as {"allow": ["http://x.io/*"]}
}

test_logging if {
	objected(object.union(plain, {"logging": {"driver": "splunk"}})) == {"logging"}
	objected(object.union(plain, {"logging": {"options": ["fluentd-address"]}})) == {"logging"}
	objected(object.union(plain, {"logging": {"driver": "json-file", "options": ["max-size"]}})) == set()
}

test_annotation if {
	objected(with_security({"annotations": {"org.systemd.property.X": "1"}})) == {"annotations"}
}

test_folder_of_a_checkpoint if {
	objected(object.union(plain, {"checkpoint": {"directory": "/etc"}})) == {"checkpoint"}
}

test_missing_view_is_an_objection if {
	every view, _ in object.remove(plain, ["AuthMethod", "User", "action", "body", "identified", "inspects", "open_listeners"]) {
		"input" in objected(object.remove(plain, [view]))
	}
}

test_settings_that_are_missing_are_the_strictest if {
	objections := guards.objections with input as plain with data.docker as {}
	{objection.rule | some objection in objections} == {"images"}
	drivers := object.union(plain, {"mounts": [{"type": "volume", "origin": "Mounts", "driver": "local"}]})
	found := guards.objections with input as drivers with data.docker as {}
	"mounts" in {objection.rule | some objection in found}
}

test_what_the_plugin_itself_uses_is_protected if {
	request := object.union(with_mounts([bind("/opt/audit/x", "/opt/audit/x")]), {"protected": ["/opt/audit"]})
	count(guards.objections) > 0 with input as request
		with data.docker.mounts as object.union(allowed_mounts, {"allow": ["/opt"]})
}

test_missing_field_is_an_objection if {
	volume := {"origin": "Mounts", "type": "volume", "driver": "local"}
	objected(with_mounts([volume])) == set()
	every field in ["driver", "type"] {
		objected(with_mounts([object.remove(volume, [field])])) == {"mounts"}
	}
	config := {"memory": 1000, "cpus": 0, "pids": 0}
	without := json.remove(plain, ["resources/memory"])
	count(guards.objections) == 1 with input as without with data.docker.limits as config
}

building(build) := object.union(plain, {"action": "image.build", "build": build})

test_build_of_an_operator if objected(building({"buildkit": true})) == set()

test_build_without_the_permission_for_its_files if {
	objected(building({})) == {"builds"} with data.docker.local_roles as ["developer"]
	objected(building({})) == set() with data.docker.local_roles as ["developer", "builder"]
}

read_build(found) := building(object.union(
	{"files": "read", "problem": "", "images": [], "remotes": [], "entitlements": [], "frontend": ""},
	found,
))

test_dockerfile_is_judged_by_the_data if {
	cases := {
		"builds": [{"entitlements": ["network.host"]}, {"frontend": "docker.io/docker/dockerfile"}, {"files": "unreadable"}],
		"images": [{"images": [image("evil.io/x")]}],
		"remote": [{"remotes": ["http://10.0.0.1/x"]}],
	}
	allowed := {"allow": ["docker.io/library/*"], "require_digest": false}
	every rule, builds in cases {
		every found in builds {
			objected(read_build(found)) == {rule} with data.docker.local_roles as ["image-builder"]
				with data.docker.images as allowed
			objected(read_build(found)) == set() with data.docker.local_roles as ["builder"]
				with data.docker.images as allowed
		}
	}
}

test_dockerfile_within_the_data if {
	found := {
		"images": [object.union(image("docker.io/library/x"), {"registry": "docker.io"})],
		"remotes": ["https://example.com/x"], "entitlements": ["device"], "frontend": "docker.io/docker/dockerfile",
	}
	settings := object.union(data.docker.builds, {"entitlements": ["device"], "frontends": ["docker.io/docker/dockerfile"]})
	objected(read_build(found)) == set() with data.docker.local_roles as ["image-builder"]
		with data.docker.builds as settings
		with data.docker.remotes as {"allow": ["https://example.com/*"]}
}

test_registries_of_a_dockerfile_are_contacted if {
	far := object.union(image("evil.io/x"), {"registry": "evil.io"})
	objected(read_build({"images": [far]})) == {"registries"} with data.docker.local_roles as ["image-builder"]
}

test_build_whose_archive_comes if {
	objected(building({"files": "pending"})) == set() with data.docker.local_roles as ["image-builder"]
	objected(building({"files": "hidden"})) == {"builds"} with data.docker.local_roles as ["image-builder"]
}

test_nobody_knows_the_owner_of_an_image_in_a_dockerfile if {
	some state in ["pending", "read"]
	some objection in guards.build_objections with input as read_build({"files": state})
		with data.docker.local_roles as ["image-builder"]
		with data.docker.owners as true
	objection.message == "files of a build cannot be judged"
}

copying(kinds) := object.union(plain, {
	"action": "container.archive.put",
	"archive": {"state": "read", "kinds": kinds, "problem": ""},
})

test_archive_of_a_copy if {
	objected(copying([])) == set()
	every kind in ["capabilities", "device", "setgid", "setuid", "unreadable"] {
		objected(copying([kind])) == {"archives"}
		objected(copying([kind])) == set() with data.docker.archives as {"kinds": [kind]}
	}
}

test_output_of_a_build if {
	objected(building({"outputs": ["local", "tar"]})) == set()
	objected(building({"outputs": ["registry"]})) == {"builds"}
}

test_cache_of_a_build_is_an_image if {
	allowed := {"allow": ["docker.io/library/*"], "require_digest": false}
	objected(building({"cache_from": [image("evil.io/x")]})) == {"images"} with data.docker.images as allowed
	objected(building({"cache_from": [image("docker.io/library/x")]})) == set() with data.docker.images as allowed
}

calling(build) := object.union(plain, {
	"action": "build.grpc",
	"build": object.union({"readable": true, "raw": false, "frontend": "dockerfile.v0", "options": [], "entitlements": []}, build),
})

test_call_of_buildkit_that_builds if {
	objected(calling({})) == set()
	objected(calling({"options": ["target"], "outputs": ["moby"]})) == set()
}

test_call_of_buildkit_beyond_the_data if {
	every build in [
		{"readable": false}, {"raw": true}, {"frontend": "gateway.v0"}, {"options": ["cgroup-parent"]},
		{"entitlements": ["network.host"]}, {"outputs": ["image"]},
	] {
		objected(calling(build)) == {"builds"}
	}
}

test_call_of_buildkit_that_is_not_described if {
	objected(object.union(plain, {"action": "build.grpc", "build": {}})) == {"builds"}
}

test_data_let_calls_of_buildkit_go_further if {
	settings := {"entitlements": ["network.host"], "frontends": ["gateway.v0"], "options": ["source"], "raw": true}
	build := {"raw": true, "frontend": "gateway.v0", "options": ["source"], "entitlements": ["network.host"]}
	objected(calling(build)) == set() with data.docker.builds as settings
}

test_calls_of_buildkit_contact_the_registries_of_the_data if {
	cache := object.union(image("evil.io/x"), {"registry": "evil.io"})
	objected(calling({"cache_from": [cache]})) == {"registries"}
}

test_buildkit_applies_no_limits if {
	ceilings := {"memory": 64, "cpus": 0, "pids": 0}
	limited := object.union(building({"buildkit": true}), {"resources": {"memory": 32}})
	objected(limited) == {"builds"} with data.docker.limits as ceilings
	unlimited := {"outputs": [], "unlimited": true}
	objected(building({"buildkit": true})) == set() with data.docker.limits as ceilings
		with data.docker.builds as unlimited
	objected(building({})) == {"limits"} with data.docker.limits as ceilings
		with data.docker.builds as unlimited
	objected(object.union(limited, {"build": {"buildkit": false}})) == set() with data.docker.limits as ceilings
}

creating_network(network) := object.union(plain, {
	"action": "network.create",
	"network": object.union({"driver": "bridge"}, network),
})

test_network_takes_private_addresses_only if {
	objected(creating_network({"subnets": ["10.1.0.0/16", "fd00:1::/64"]})) == set()
	every subnet in ["140.82.112.0/20", "0.0.0.0/0", "10.0.0.0/7", "169.254.0.0/16", "x", "2000::/3"] {
		objected(creating_network({"subnets": [subnet]})) == {"networks"}
	}
}

test_network_option_of_the_host if {
	objected(creating_network({"options": ["com.docker.network.driver.mtu"]})) == set()
	objected(creating_network({"options": ["com.docker.network.bridge.name"]})) == {"networks"}
	objected(creating_network({"ipam_driver": "x"})) == {"networks"}
}

test_registry_that_is_asked if {
	allowed := {"allow": ["docker.io", "*.corp.example"]}
	every registry in ["docker.io", "r.corp.example", ""] {
		request := object.union(plain, {"action": "system.auth", "registry": registry})
		objected(request) == set() with data.docker.registries as allowed
	}
	every registry in ["169.254.169.254", "corp.example", "docker.io.evil.io"] {
		request := object.union(plain, {"action": "system.auth", "registry": registry})
		objected(request) == {"registries"} with data.docker.registries as allowed
	}
}

test_login_that_is_not_shown if {
	unseen := object.union(plain, {"action": "system.auth", "body": null})
	objected(unseen) == set() with data.docker.local_roles as ["login"]
	objected(unseen) == {"registries"} with data.docker.local_roles as ["developer"]
}

test_address_and_port_that_are_not_the_users if {
	every port in [
		{"host": "8080", "first": 8080, "last": 8080, "host_ip": "0.0.0.0"},
		{"host": "8100-8200", "first": 8100, "last": 8200, "host_ip": ""},
	] {
		request := object.union(plain, {"ports": {"published": [port]}, "protected_ports": [8181]})
		objected(request) == {"ports"}
	}
}

test_network_that_overlaps_the_host if {
	request := object.union(plain, {"network": {"taken": ["192.168.1.0/24"]}})
	objected(request) == {"networks"}
}

test_what_is_of_no_type if {
	request := object.union(plain, {"untyped": [{"field": "HostConfig.Binds[]", "type": "a path"}]})
	objected(request) == {"types"}
	authz.messages == ["HostConfig.Binds[] must be a path"] with input as request
}

test_what_does_not_say_what_it_is_about_is_refused if {
	every fault in ["x", {}, {"field": "HostConfig.Binds[]"}, 1] {
		objected(object.union(plain, {"untyped": [fault]})) == {"types"}
	}
}

test_denial_says_what_would_allow_it if {
	request := with_security({"cap_add": ["NET_ADMIN"]})
	authz.lines == [`"capabilities": {"allow": ["NET_ADMIN"]}`] with input as request
	viewer := {"identified": true, "User": "bob", "AuthMethod": "TLS", "action": "container.start"}
	authz.lines == [`"users": {"bob": ["developer"]}`] with input as viewer
		with data.docker.users as {"bob": ["viewer"]}
}

test_start_is_judged_as_a_creation if {
	start := object.union(plain, {"action": "container.start"})
	port := {"host": "80", "first": 80, "last": 80, "host_ip": ""}
	container := {
		"asked": true, "known": true, "missing": false, "mounts": [], "devices": {"any": false},
		"security": plain.security, "ports": {"published": []}, "untyped": [],
		"image": plain.image,
	}
	objected(object.union(start, {"container": container})) == set()
	every changed in [
		{"mounts": [bind("/srv/data/x", "/etc")]}, {"ports": {"published": [port]}},
		{"untyped": [{"field": "HostConfig.Binds[]", "type": "a path"}]}, {"known": false},
	] {
		objected(object.union(start, {"container": object.union(container, changed)})) == {"container"} with data.docker.mounts as allowed_mounts
	}
}

test_nobody_is_local_while_the_daemon_listens_for_all if {
	request := object.union(plain, {"open_listeners": ["tcp://0.0.0.0:2375"]})
	not authz.allow with input as request
	not authz.allow with input as object.remove(plain, ["open_listeners"])
}

test_real_time if {
	every name in ["rtprio", "RTPRIO", "nice"] {
		objected(object.union(plain, {"resources": {"ulimits": [{"name": name}]}})) == {"limits"}
	}
	nofile := object.union(plain, {"resources": {"ulimits": [{"name": "nofile"}]}})
	objected(nofile) == {"limits"}
	objected(nofile) == set() with data.docker.ulimits.allow as ["nofile"]
	objected(object.union(plain, {"resources": {"cpu_realtime_runtime": 950000}})) == {"limits"}
}

owned(thing) := object.union(plain, {
	"identified": true, "User": "alice", "AuthMethod": "TLS", "action": "container.start",
	"owner": {"asked": true, "labels": [], "objects": [object.union(
		{"kind": "container", "name": "c", "known": true, "missing": false},
		thing,
	)]},
})

test_things_have_owners if {
	objected(owned({"owner": "bob"})) == set()
	objected(owned({"owner": "alice"})) == set() with data.docker.owners as true
	every other in [{"owner": "bob"}, {"owner": ""}, {"owner": "alice", "known": false}] {
		objected(owned(other)) == {"owners"} with data.docker.owners as true
	}
	missing := owned({"owner": "", "known": false, "missing": true})
	objected(missing) == set() with data.docker.owners as true
}

test_nothing_is_known_of_owners if {
	every owner in [{}, {"asked": false, "labels": ["alice"], "objects": []}] {
		request := object.union(object.remove(owned({"owner": "alice"}), ["owner"]), {"owner": owner})
		objected(request) == {"owners"} with data.docker.owners as true
	}
}

test_local_users_have_no_names if {
	not authz.allow with input as plain with data.docker.owners as true
}

test_new_action_has_no_owner if {
	request := object.union(owned({"owner": "alice"}), {"action": "container.new"})
	objected(request) == {"owners"} with data.docker.owners as true
}
