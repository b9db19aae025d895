// Policies to begin with: each with a query, an input, and what belongs to it.

const lines = (text) => text.replace(/^\n/, "");

export const EXAMPLES = [
  {
    name: "People: guests read, admins create",
    query: "data.people.allow",
    files: {
      "people.rego": lines(`
package people

default allow := false

allow if {
	input.method == "GET"
	input.role in {"guest", "admin"}
}

# Nobody creates a person with their own first name.
allow if {
	input.method == "POST"
	input.role == "admin"
	lower(input.body.firstname) != input.user
}
`),
      "people_test.rego": lines(`
package people_test

test_guests_read if data.people.allow with input as {"method": "GET", "role": "guest"}

test_guests_create_nobody if {
	not data.people.allow with input as {"method": "POST", "role": "guest", "body": {"firstname": "Eve"}}
}
`),
    },
    input: { method: "POST", role: "admin", user: "bob", body: { firstname: "Charlie" } },
  },
  {
    name: "Roles (RBAC)",
    query: "data.rbac.allow",
    files: {
      "rbac.rego": lines(`
package rbac

default allow := false

allow if {
	some role in data.users[input.user]
	some grant in data.roles[role]
	grant.action == input.action
	grant.type == input.type
}
`),
    },
    input: { user: "ann", action: "read", type: "report" },
    data: {
      users: { ann: ["analyst"], bob: ["analyst", "editor"] },
      roles: { analyst: [{ action: "read", type: "report" }], editor: [{ action: "write", type: "report" }] },
    },
  },
  {
    name: "Attributes (ABAC)",
    query: "data.abac.allow",
    files: {
      "abac.rego": lines(`
package abac

default allow := false

allow if {
	input.action == "read"
	input.user.department == input.document.department
	input.user.clearance >= input.document.level
	is_office_hour
}

is_office_hour if {
	[hour, _, _] := time.clock(input.time_ns)
	hour >= 8
	hour < 18
}
`),
    },
    input: { action: "read", user: { department: "sales", clearance: 3 }, document: { department: "sales", level: 2 }, time_ns: 1767258000000000000 },
  },
  {
    name: "Docker: what a container may be",
    query: "data.docker.denials",
    files: {
      "docker.rego": lines(`
package docker

denials contains "privileged containers" if input.HostConfig.Privileged

denials contains sprintf("the host's %s", [source]) if {
	some bind in input.HostConfig.Binds
	source := split(bind, ":")[0]
	not startswith(source, "/srv/")
}

denials contains "an image without a digest" if not contains(input.Image, "@sha256:")
`),
    },
    input: { Image: "alpine", HostConfig: { Privileged: true, Binds: ["/etc:/etc:ro", "/srv/data:/data"] } },
  },
  {
    name: "A filter of rows, as SQL",
    query: "data.posts.include",
    action: "filter",
    files: {
      "posts.rego": lines(`
package posts

# METADATA
# scope: document
# compile:
#   unknowns: [input.posts]
include if input.posts.published == true

include if input.posts.owner == input.user
`),
    },
    input: { user: "ann" },
    data: { rows: { posts: [
      { id: 1, owner: "ann", published: 0 }, { id: 2, owner: "bob", published: 1 }, { id: 3, owner: "bob", published: 0 },
    ] } },
  },
  {
    name: "A response with masked fields",
    query: "data.response.body",
    files: {
      "response.rego": lines(`
package response

body := input.body if input.role == "admin"

body := object.remove(input.body, hidden) if input.role != "admin"

hidden := {"salary", "iban"}
`),
    },
    input: { role: "guest", body: { name: "Ann", salary: 52000, iban: "DE02 1203 0000 0000 2020 51" } },
  },
  {
    name: "What must never be: a counterexample",
    query: "data.shop.allow",
    files: {
      "shop.rego": lines(`
package shop

default allow := false

allow if input.role == "admin"

allow if input.method == "DELETE"

# METADATA
# title: Guests delete nothing
never_guest_deletes if {
	allow
	input.role == "guest"
	input.method == "DELETE"
}

never_guest_is_admin if {
	input.role == "guest"
	input.role == "admin"
}
`),
    },
    input: { role: "guest", method: "DELETE" },
  },
  {
    name: "Kubernetes admission",
    query: "data.admission.deny",
    files: {
      "admission.rego": lines(`
package admission

deny contains message if {
	some container in input.request.object.spec.containers
	not endswith_digest(container.image)
	message := sprintf("%s: the image %s has no digest", [container.name, container.image])
}

deny contains message if {
	some container in input.request.object.spec.containers
	not container.resources.limits.memory
	message := sprintf("%s: no limit of memory", [container.name])
}

endswith_digest(image) if regex.match(\`@sha256:[0-9a-f]{64}$\`, image)
`),
    },
    input: { request: { kind: { kind: "Pod" }, object: { spec: { containers: [{ name: "web", image: "nginx:latest" }] } } } },
  },
];
