"""Go's dialects: JSON, YAML, `fmt.Sprintf`, `text/template`, time layouts, URLs and quoted text.

OPA is written in Go, so its answers and errors are in Go's words. What speaks those words is here;
what a policy, a request or a server uses them for is not known here.
"""
