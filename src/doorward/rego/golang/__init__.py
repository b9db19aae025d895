"""Go's dialects: JSON, YAML, `fmt.Sprintf`, `text/template`, time layouts, URLs and quoted text.

OPA is written in Go, so its answers and errors are in Go's words. What speaks those words is here;
what a policy, a request or a server uses them for is not known here.

Part of the façade, see `doorward.rego`: other packages import from here, not from the modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.base.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.rego.golang.json import indent, marshal
    from doorward.rego.golang.json_decoder import MAX_EXPLAINED, read_again
    from doorward.rego.golang.json_documents import (
        JSONError,
        object_text,
        ordered_text,
        read_data,
        read_json,
    )
    from doorward.rego.golang.layouts import time_text
    from doorward.rego.golang.numbers import from_float, json_float, parse_int
    from doorward.rego.golang.octets import to_text
    from doorward.rego.golang.strings import lower, quote, upper
    from doorward.rego.golang.yaml import unmarshal
    from doorward.rego.golang.yaml_nodes import compose_yaml
else:
    __getattr__ = _exporter(
        __name__,
        {
            "golang.json": "indent marshal",
            "golang.json_decoder": "MAX_EXPLAINED read_again",
            "golang.json_documents": "JSONError object_text ordered_text read_data read_json",
            "golang.layouts": "time_text",
            "golang.numbers": "from_float json_float parse_int",
            "golang.octets": "to_text",
            "golang.strings": "lower quote upper",
            "golang.yaml": "unmarshal",
            "golang.yaml_nodes": "compose_yaml",
        },
        below="doorward.rego",
    )

__all__ = [
    "MAX_EXPLAINED",
    "JSONError",
    "compose_yaml",
    "from_float",
    "indent",
    "json_float",
    "lower",
    "marshal",
    "object_text",
    "ordered_text",
    "parse_int",
    "quote",
    "read_again",
    "read_data",
    "read_json",
    "time_text",
    "to_text",
    "unmarshal",
    "upper",
]
