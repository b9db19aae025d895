# Who may read which document, and what requests are about at all.
package documents

http := input.attributes.request.http

default request := false

# Asked by the middleware, with the input of the sidecar.
request if {
	http.method == "GET"
	input.parsed_path[0] == "documents"
}

default allow := {"allowed": false, "body": "this document is not yours"}

# Asked by the route, with the document.
allow if input.document.public

allow if input.document.owner == input.user
