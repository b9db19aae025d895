package policy.docker.roles_test

import data.policy.docker.authz
import data.policy.docker.roles

config := {
	"users": {"alice": ["developer"], "bob": ["viewer"], "carol": ["admin"], "olga": ["operator"]},
	"local_roles": ["viewer"],
}

allowed(user, action) if {
	method := {true: "TLS", false: ""}[user != ""]
	request := {"identified": user != "", "User": user, "AuthMethod": method, "action": action, "open_listeners": []}
	roles.permitted with input as request
		with data.docker.users as config.users
		with data.docker.local_roles as config.local_roles
}

test_viewer_looks if allowed("bob", "container.list")

test_viewer_changes_nothing if {
	every action in roles.operator_actions - roles.viewer_actions {
		not allowed("bob", action)
	}
}

test_viewer_reads_no_files if {
	every action in {"container.archive.get", "container.export", "image.save", "container.attach"} {
		not allowed("bob", action)
	}
}

test_developer_runs if allowed("alice", "container.create")

test_developer_builds_nothing if not allowed("alice", "image.build")

test_developer_reads_no_secrets if not allowed("alice", "secret.inspect")

test_operator_builds if allowed("olga", "image.build")

test_only_admins_touch_plugins if {
	every action in {"plugin.disable", "plugin.delete", "plugin.enable", "plugin.set", "plugin.pull"} {
		not allowed("olga", action)
		allowed("carol", action)
	}
}

test_only_admins_see_tokens_of_the_swarm if {
	not allowed("olga", "swarm.inspect")
	not allowed("olga", "swarm.unlockkey")
	allowed("carol", "swarm.inspect")
}

test_only_admins_get_a_connection_that_nobody_watches if {
	not allowed("olga", "build.grpc")
	allowed("carol", "build.grpc")
}

asks(user, action) := {"identified": true, "User": user, "AuthMethod": "TLS", "action": action}

test_builders_build_and_do_nothing_else if {
	builders := {"dora": ["developer", "builder"], "bert": ["builder"], "kit": ["buildkit"]}
	every action in ["image.build", "build.session"] {
		roles.grants(action) with input as asks("dora", action) with data.docker.users as builders
		not roles.grants(action) with input as asks("dave", action)
	}
	not roles.grants("build.grpc") with input as asks("dora", "build.grpc") with data.docker.users as builders
	roles.grants("build.grpc") with input as asks("kit", "build.grpc") with data.docker.users as builders
	not roles.grants("container.create") with input as asks("bert", "container.create")
		with data.docker.users as builders
}

test_unknown_route_is_nobodys if not allowed("carol", "unknown")

test_stranger_may_nothing if not allowed("mallory", "container.list")

test_local_user_has_the_roles_of_the_socket if {
	allowed("", "container.list")
	not allowed("", "container.create")
}

test_name_without_certificate_is_nobody if {
	not roles.admin with input as {"identified": false, "User": "carol", "action": "x"}
		with data.docker.users as config.users
		with data.docker.local_roles as []
}

test_denial_names_user_and_action if {
	authz.messages == ["user bob may not image.build"] with input as {
		"identified": true,
		"User": "bob",
		"action": "image.build",
	}
		with data.docker.users as config.users
}

test_certificate_without_a_name_is_nobody if {
	every action in {"container.list", "container.create"} {
		request := {"identified": false, "User": "", "AuthMethod": "TLS", "action": action}
		not roles.permitted with input as request with data.docker.local_roles as ["admin"]
	}
}
