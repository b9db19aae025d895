// Made by `make docs`; do not edit.
window.doorwardExamples = [
 {
  "id": "people",
  "order": 1,
  "name": "People: guests read, admins create",
  "query": "data.people.allow",
  "inputs": [
   {
    "name": "admin creates Charlie",
    "input": {
     "method": "POST",
     "role": "admin",
     "user": "bob",
     "body": {
      "firstname": "Charlie"
     }
    },
    "defined": true,
    "result": [
     true
    ],
    "why": "data.people.allow is true\n  people.rego:6: `input.method == \"GET\"` does not hold\n    input.method: \"POST\"\n  people.rego:11: `allow` holds",
    "states": {
     "people.rego": {
      "6": "failed",
      "7": "unreached",
      "5": "failed",
      "12": "held",
      "13": "held",
      "14": "held",
      "11": "held"
     }
    }
   },
   {
    "name": "guest reads",
    "input": {
     "method": "GET",
     "role": "guest",
     "user": "ann"
    },
    "defined": true,
    "result": [
     true
    ],
    "why": "data.people.allow is true\n  people.rego:5: `allow` holds",
    "states": {
     "people.rego": {
      "6": "held",
      "7": "held",
      "5": "held"
     }
    }
   },
   {
    "name": "guest creates Eve",
    "input": {
     "method": "POST",
     "role": "guest",
     "user": "ann",
     "body": {
      "firstname": "Eve"
     }
    },
    "defined": true,
    "result": [
     false
    ],
    "why": "data.people.allow is false, its default\n  people.rego:6: `input.method == \"GET\"` does not hold\n    input.method: \"POST\"\n  people.rego:13: `input.role == \"admin\"` does not hold\n    input.role: \"guest\"",
    "states": {
     "people.rego": {
      "6": "failed",
      "7": "unreached",
      "5": "failed",
      "12": "held",
      "13": "failed",
      "14": "unreached",
      "11": "failed",
      "3": "held"
     }
    }
   },
   {
    "name": "bob creates Bob",
    "input": {
     "method": "POST",
     "role": "admin",
     "user": "bob",
     "body": {
      "firstname": "Bob"
     }
    },
    "defined": true,
    "result": [
     false
    ],
    "why": "data.people.allow is false, its default\n  people.rego:6: `input.method == \"GET\"` does not hold\n    input.method: \"POST\"\n  people.rego:14: `lower(input.body.firstname) != input.user` does not hold\n    lower(input.body.firstname): \"bob\"\n    input.body.firstname: \"Bob\"\n    input.user: \"bob\"",
    "states": {
     "people.rego": {
      "6": "failed",
      "7": "unreached",
      "5": "failed",
      "12": "held",
      "13": "held",
      "14": "failed",
      "11": "failed",
      "3": "held"
     }
    }
   }
  ],
  "files": {
   "people.rego": "package people\n\ndefault allow := false\n\nallow if {\n\tinput.method == \"GET\"\n\tinput.role in {\"guest\", \"admin\"}\n}\n\n# Nobody creates a person with their own first name.\nallow if {\n\tinput.method == \"POST\"\n\tinput.role == \"admin\"\n\tlower(input.body.firstname) != input.user\n}\n",
   "people_test.rego": "package people_test\n\ntest_guests_read if data.people.allow with input as {\"method\": \"GET\", \"role\": \"guest\"}\n\ntest_guests_create_nobody if {\n\tnot data.people.allow with input as {\"method\": \"POST\", \"role\": \"guest\", \"body\": {\"firstname\": \"Eve\"}}\n}\n\n# A rule that must be true for no input: doorward proves it, or finds one.\nnever_guest_creates if {\n\tdata.people.allow\n\tinput.role == \"guest\"\n\tinput.method != \"GET\"\n}\n"
  },
  "tests": [
   {
    "name": "data.people_test.test_guests_read",
    "outcome": "PASS"
   },
   {
    "name": "data.people_test.test_guests_create_nobody",
    "outcome": "PASS"
   }
  ],
  "properties": [
   {
    "name": "data.people_test.never_guest_creates",
    "outcome": "none exists",
    "input": null
   }
  ]
 },
 {
  "id": "roles",
  "order": 2,
  "name": "Roles (RBAC)",
  "query": "data.rbac.allow",
  "inputs": [
   {
    "name": "ann reads",
    "input": {
     "user": "ann",
     "action": "read",
     "type": "report"
    },
    "defined": true,
    "result": [
     true
    ],
    "why": "data.rbac.allow is true\n  rbac.rego:5: `allow` holds",
    "states": {
     "rbac.rego": {
      "6": "held",
      "7": "held",
      "8": "held",
      "9": "held",
      "5": "held"
     }
    }
   },
   {
    "name": "ann writes",
    "input": {
     "user": "ann",
     "action": "write",
     "type": "report"
    },
    "defined": true,
    "result": [
     false
    ],
    "why": "data.rbac.allow is false, its default\n  rbac.rego:8: `grant.action == input.action` does not hold\n    grant.action: \"read\"\n    grant: {\"action\": \"read\", \"type\": \"report\"}\n    input.action: \"write\"",
    "states": {
     "rbac.rego": {
      "6": "held",
      "7": "held",
      "8": "failed",
      "9": "unreached",
      "5": "failed",
      "3": "held"
     }
    }
   },
   {
    "name": "bob writes",
    "input": {
     "user": "bob",
     "action": "write",
     "type": "report"
    },
    "defined": true,
    "result": [
     true
    ],
    "why": "data.rbac.allow is true\n  rbac.rego:5: `allow` holds",
    "states": {
     "rbac.rego": {
      "6": "held",
      "7": "held",
      "8": "held",
      "9": "held",
      "5": "held"
     }
    }
   },
   {
    "name": "nobody knows eve",
    "input": {
     "user": "eve",
     "action": "read",
     "type": "report"
    },
    "defined": true,
    "result": [
     false
    ],
    "why": "data.rbac.allow is false, its default\n  rbac.rego:6: `some role in data.users[input.user]` does not hold\n    data.users[input.user]: undefined\n    input.user: \"eve\"",
    "states": {
     "rbac.rego": {
      "6": "failed",
      "7": "unreached",
      "8": "unreached",
      "9": "unreached",
      "5": "failed",
      "3": "held"
     }
    }
   }
  ],
  "data": {
   "users": {
    "ann": [
     "analyst"
    ],
    "bob": [
     "analyst",
     "editor"
    ]
   },
   "roles": {
    "analyst": [
     {
      "action": "read",
      "type": "report"
     }
    ],
    "editor": [
     {
      "action": "write",
      "type": "report"
     }
    ]
   }
  },
  "files": {
   "rbac.rego": "package rbac\n\ndefault allow := false\n\nallow if {\n\tsome role in data.users[input.user]\n\tsome grant in data.roles[role]\n\tgrant.action == input.action\n\tgrant.type == input.type\n}\n"
  },
  "tests": [],
  "properties": []
 },
 {
  "id": "attributes",
  "order": 3,
  "name": "Attributes (ABAC)",
  "query": "data.abac.allow",
  "inputs": [
   {
    "name": "same department",
    "input": {
     "action": "read",
     "user": {
      "department": "sales",
      "clearance": 3
     },
     "document": {
      "department": "sales",
      "level": 2
     },
     "time_ns": 1767258000000000000
    },
    "defined": true,
    "result": [
     true
    ],
    "why": "data.abac.allow is true\n  abac.rego:5: `allow` holds",
    "states": {
     "abac.rego": {
      "6": "held",
      "7": "held",
      "8": "held",
      "9": "held",
      "13": "held",
      "14": "held",
      "15": "held",
      "12": "held",
      "5": "held"
     }
    }
   },
   {
    "name": "too low a clearance",
    "input": {
     "action": "read",
     "user": {
      "department": "sales",
      "clearance": 1
     },
     "document": {
      "department": "sales",
      "level": 2
     },
     "time_ns": 1767258000000000000
    },
    "defined": true,
    "result": [
     false
    ],
    "why": "data.abac.allow is false, its default\n  abac.rego:8: `input.user.clearance >= input.document.level` does not hold\n    input.user.clearance: 1\n    input.document.level: 2",
    "states": {
     "abac.rego": {
      "6": "held",
      "7": "held",
      "8": "failed",
      "9": "unreached",
      "5": "failed",
      "3": "held"
     }
    }
   },
   {
    "name": "at night",
    "input": {
     "action": "read",
     "user": {
      "department": "sales",
      "clearance": 3
     },
     "document": {
      "department": "sales",
      "level": 2
     },
     "time_ns": 1767225600000000000
    },
    "defined": true,
    "result": [
     false
    ],
    "why": "data.abac.allow is false, its default\n  abac.rego:9: `is_office_hour` does not hold\n    data.abac.is_office_hour is undefined\n      abac.rego:14: `hour >= 8` does not hold\n        hour: 0",
    "states": {
     "abac.rego": {
      "6": "held",
      "7": "held",
      "8": "held",
      "9": "failed",
      "13": "held",
      "14": "failed",
      "15": "unreached",
      "12": "failed",
      "5": "failed",
      "3": "held"
     }
    }
   }
  ],
  "files": {
   "abac.rego": "package abac\n\ndefault allow := false\n\nallow if {\n\tinput.action == \"read\"\n\tinput.user.department == input.document.department\n\tinput.user.clearance >= input.document.level\n\tis_office_hour\n}\n\nis_office_hour if {\n\t[hour, _, _] := time.clock(input.time_ns)\n\thour >= 8\n\thour < 18\n}\n"
  },
  "tests": [],
  "properties": []
 },
 {
  "id": "docker",
  "order": 4,
  "name": "Docker: what a container may be",
  "query": "data.docker.denials",
  "inputs": [
   {
    "name": "privileged, with /etc",
    "input": {
     "Image": "alpine",
     "HostConfig": {
      "Privileged": true,
      "Binds": [
       "/etc:/etc:ro",
       "/srv/data:/data"
      ]
     }
    },
    "defined": true,
    "result": [
     [
      "an image without a digest",
      "privileged containers",
      "the host's /etc"
     ]
    ],
    "why": "data.docker.denials is {\"an image without a digest\", \"privileged containers\", \"the host's /etc\"}\n  docker.rego:3: `denials contains \"privileged containers\"` holds\n  docker.rego:5: `denials contains sprintf(\"the host's %s\", [source])` holds\n  docker.rego:11: `denials contains \"an image without a digest\"` holds",
    "states": {
     "docker.rego": {
      "3": "held",
      "6": "held",
      "7": "held",
      "8": "held",
      "5": "held",
      "11": "held"
     }
    }
   },
   {
    "name": "a plain container",
    "input": {
     "Image": "alpine@sha256:0a4eaa0eecf5f8c050e5bba433f58c052be7587ee8af3e8b3910ef9ab5fbe9f5",
     "HostConfig": {
      "Privileged": false,
      "Binds": [
       "/srv/data:/data"
      ]
     }
    },
    "defined": true,
    "result": [
     []
    ],
    "why": "data.docker.denials is set()\n  docker.rego:3: `input.HostConfig.Privileged` does not hold\n    input.HostConfig.Privileged: false\n  docker.rego:8: `not startswith(source, \"/srv/\")` does not hold\n    startswith(source, \"/srv/\"): true\n    source: \"/srv/data\"\n  docker.rego:11: `not contains(input.Image, \"@sha256:\")` does not hold\n    contains(input.Image, \"@sha256:\"): true\n    input.Image: \"alpine@sha256:0a4eaa0eecf5f8c050e5bba433f58c052be7587ee8af3e8b3910ef9ab5fbe9f5\"",
    "states": {
     "docker.rego": {
      "3": "failed",
      "6": "held",
      "7": "held",
      "8": "failed",
      "5": "failed",
      "11": "failed"
     }
    }
   }
  ],
  "files": {
   "docker.rego": "package docker\n\ndenials contains \"privileged containers\" if input.HostConfig.Privileged\n\ndenials contains sprintf(\"the host's %s\", [source]) if {\n\tsome bind in input.HostConfig.Binds\n\tsource := split(bind, \":\")[0]\n\tnot startswith(source, \"/srv/\")\n}\n\ndenials contains \"an image without a digest\" if not contains(input.Image, \"@sha256:\")\n"
  },
  "tests": [],
  "properties": []
 },
 {
  "id": "filter",
  "order": 5,
  "name": "A filter of rows, as SQL",
  "query": "data.posts.include",
  "action": "filter",
  "inputs": [
   {
    "name": "ann",
    "input": {
     "user": "ann"
    },
    "sql": "WHERE (posts.owner = 'ann' OR posts.published = TRUE)",
    "rows": {
     "posts": [
      {
       "id": 1,
       "owner": "ann",
       "published": 0
      },
      {
       "id": 2,
       "owner": "bob",
       "published": 1
      }
     ]
    },
    "states": {
     "posts.rego": {
      "7": "failed",
      "9": "failed"
     }
    }
   },
   {
    "name": "bob",
    "input": {
     "user": "bob"
    },
    "sql": "WHERE (posts.owner = 'bob' OR posts.published = TRUE)",
    "rows": {
     "posts": [
      {
       "id": 2,
       "owner": "bob",
       "published": 1
      },
      {
       "id": 3,
       "owner": "bob",
       "published": 0
      }
     ]
    },
    "states": {
     "posts.rego": {
      "7": "failed",
      "9": "failed"
     }
    }
   },
   {
    "name": "no user",
    "input": {},
    "sql": "WHERE posts.published = TRUE",
    "rows": {
     "posts": [
      {
       "id": 2,
       "owner": "bob",
       "published": 1
      }
     ]
    },
    "states": {
     "posts.rego": {
      "7": "failed",
      "9": "failed"
     }
    }
   }
  ],
  "data": {
   "rows": {
    "posts": [
     {
      "id": 1,
      "owner": "ann",
      "published": 0
     },
     {
      "id": 2,
      "owner": "bob",
      "published": 1
     },
     {
      "id": 3,
      "owner": "bob",
      "published": 0
     }
    ]
   }
  },
  "files": {
   "posts.rego": "package posts\n\n# METADATA\n# scope: document\n# compile:\n#   unknowns: [input.posts]\ninclude if input.posts.published == true\n\ninclude if input.posts.owner == input.user\n"
  },
  "tests": [],
  "properties": []
 },
 {
  "id": "response",
  "order": 6,
  "name": "A response with masked fields",
  "query": "data.response.body",
  "inputs": [
   {
    "name": "a guest",
    "input": {
     "role": "guest",
     "body": {
      "name": "Ann",
      "salary": 52000,
      "iban": "DE02 1203 0000 0000 2020 51"
     }
    },
    "defined": true,
    "result": [
     {
      "name": "Ann"
     }
    ],
    "why": "data.response.body is {\"name\": \"Ann\"}\n  response.rego:3: `input.role == \"admin\"` does not hold\n    input.role: \"guest\"\n  response.rego:5: `body := object.remove(input.body, hidden)` holds",
    "states": {
     "response.rego": {
      "3": "failed",
      "5": "held",
      "7": "held"
     }
    }
   },
   {
    "name": "an admin",
    "input": {
     "role": "admin",
     "body": {
      "name": "Ann",
      "salary": 52000,
      "iban": "DE02 1203 0000 0000 2020 51"
     }
    },
    "defined": true,
    "result": [
     {
      "name": "Ann",
      "salary": 52000,
      "iban": "DE02 1203 0000 0000 2020 51"
     }
    ],
    "why": "data.response.body is {\"iban\": \"DE02 1203 0000 0000 2020 51\", \"name\": \"Ann\", \"salary\": 52000}\n  response.rego:3: `body := input.body` holds\n  response.rego:5: `input.role != \"admin\"` does not hold\n    input.role: \"admin\"",
    "states": {
     "response.rego": {
      "3": "held",
      "5": "failed"
     }
    }
   }
  ],
  "files": {
   "response.rego": "package response\n\nbody := input.body if input.role == \"admin\"\n\nbody := object.remove(input.body, hidden) if input.role != \"admin\"\n\nhidden := {\"salary\", \"iban\"}\n"
  },
  "tests": [],
  "properties": []
 },
 {
  "id": "never",
  "order": 7,
  "name": "What must never be: a counterexample",
  "query": "data.shop.allow",
  "inputs": [
   {
    "name": "a guest deletes",
    "input": {
     "role": "guest",
     "method": "DELETE"
    },
    "defined": true,
    "result": [
     true
    ],
    "why": "data.shop.allow is true\n  shop.rego:5: `input.role == \"admin\"` does not hold\n    input.role: \"guest\"\n  shop.rego:7: `allow` holds",
    "states": {
     "shop.rego": {
      "5": "failed",
      "7": "held"
     }
    }
   },
   {
    "name": "a guest reads",
    "input": {
     "role": "guest",
     "method": "GET"
    },
    "defined": true,
    "result": [
     false
    ],
    "why": "data.shop.allow is false, its default\n  shop.rego:5: `input.role == \"admin\"` does not hold\n    input.role: \"guest\"\n  shop.rego:7: `input.method == \"DELETE\"` does not hold\n    input.method: \"GET\"",
    "states": {
     "shop.rego": {
      "5": "failed",
      "7": "failed",
      "3": "held"
     }
    }
   },
   {
    "name": "an admin reads",
    "input": {
     "role": "admin",
     "method": "GET"
    },
    "defined": true,
    "result": [
     true
    ],
    "why": "data.shop.allow is true\n  shop.rego:5: `allow` holds",
    "states": {
     "shop.rego": {
      "5": "held"
     }
    }
   }
  ],
  "files": {
   "shop.rego": "package shop\n\ndefault allow := false\n\nallow if input.role == \"admin\"\n\nallow if input.method == \"DELETE\"\n\n# METADATA\n# title: Guests delete nothing\nnever_guest_deletes if {\n\tallow\n\tinput.role == \"guest\"\n\tinput.method == \"DELETE\"\n}\n\nnever_guest_is_admin if {\n\tinput.role == \"guest\"\n\tinput.role == \"admin\"\n}\n"
  },
  "tests": [],
  "properties": [
   {
    "name": "data.shop.never_guest_deletes",
    "outcome": "counterexample",
    "input": {
     "role": "guest",
     "method": "DELETE"
    }
   },
   {
    "name": "data.shop.never_guest_is_admin",
    "outcome": "none exists",
    "input": null
   }
  ]
 },
 {
  "id": "admission",
  "order": 8,
  "name": "Kubernetes admission",
  "query": "data.admission.deny",
  "inputs": [
   {
    "name": "nginx:latest",
    "input": {
     "request": {
      "kind": {
       "kind": "Pod"
      },
      "object": {
       "spec": {
        "containers": [
         {
          "name": "web",
          "image": "nginx:latest"
         }
        ]
       }
      }
     }
    },
    "defined": true,
    "result": [
     [
      "web: no limit of memory",
      "web: the image nginx:latest has no digest"
     ]
    ],
    "why": "data.admission.deny is {\"web: no limit of memory\", \"web: the image nginx:latest has no digest\"}\n  admission.rego:3: `deny contains message` holds\n  admission.rego:9: `deny contains message` holds",
    "states": {
     "admission.rego": {
      "4": "held",
      "5": "held",
      "15": "failed",
      "6": "held",
      "3": "held",
      "10": "held",
      "11": "held",
      "12": "held",
      "9": "held"
     }
    }
   },
   {
    "name": "a digest and a limit",
    "input": {
     "request": {
      "kind": {
       "kind": "Pod"
      },
      "object": {
       "spec": {
        "containers": [
         {
          "name": "web",
          "image": "nginx@sha256:0a4eaa0eecf5f8c050e5bba433f58c052be7587ee8af3e8b3910ef9ab5fbe9f5",
          "resources": {
           "limits": {
            "memory": "64Mi"
           }
          }
         }
        ]
       }
      }
     }
    },
    "defined": true,
    "result": [
     []
    ],
    "why": "data.admission.deny is set()\n  admission.rego:5: `not endswith_digest(container.image)` does not hold\n    container.image: \"nginx@sha256:0a4eaa0eecf5f8c050e5bba433f58c052be7587ee8af3e8b3910ef9ab5fbe9f5\"\n    container: {\"image\": \"nginx@sha256:0a4eaa0eecf5f8c050e5bba433f58c052be7587ee8af3e8b3910ef9ab5fbe9f5\", \"name\": \"web\", \"resources\": {\"limits\": {\"memory\": \"64Mi\"}}}\n    data.admission.endswith_digest(\"nginx@sha256:0a4eaa0eecf5f8c050e5bba433f58c052be7587ee8af3e8b3910ef9ab5fbe9f5\") is true\n      admission.rego:15: `endswith_digest(image)` holds\n  admission.rego:11: `not container.resources.limits.memory` does not hold\n    container.resources.limits.memory: \"64Mi\"\n    container: {\"image\": \"nginx@sha256:0a4eaa0eecf5f8c050e5bba433f58c052be7587ee8af3e8b3910ef9ab5fbe9f5\", \"name\": \"web\", \"resources\": {\"limits\": {\"memory\": \"64Mi\"}}}",
    "states": {
     "admission.rego": {
      "4": "held",
      "5": "failed",
      "15": "held",
      "6": "unreached",
      "3": "failed",
      "10": "held",
      "11": "failed",
      "12": "unreached",
      "9": "failed"
     }
    }
   }
  ],
  "files": {
   "admission.rego": "package admission\n\ndeny contains message if {\n\tsome container in input.request.object.spec.containers\n\tnot endswith_digest(container.image)\n\tmessage := sprintf(\"%s: the image %s has no digest\", [container.name, container.image])\n}\n\ndeny contains message if {\n\tsome container in input.request.object.spec.containers\n\tnot container.resources.limits.memory\n\tmessage := sprintf(\"%s: no limit of memory\", [container.name])\n}\n\nendswith_digest(image) if regex.match(`@sha256:[0-9a-f]{64}$`, image)\n"
  },
  "tests": [],
  "properties": []
 }
];
