# METADATA
# title: What the decision log does not hold
package system.log

mask contains sprintf("/input/request/%s/%s", [object, field]) if {
	input.input.request.kind.kind == "Secret"
	some object in ["object", "oldObject"]
	some field in ["data", "stringData"]
}
