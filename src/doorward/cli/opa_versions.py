"""The capabilities of each version of OPA: its built-ins, keywords and features by name.

Built-ins only ever came: each version names those that it added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from doorward.rego import REGISTRY
from doorward.rego.tools import to_declaration

__all__ = ["VERSIONS", "capabilities_of"]

_NAMES: Final = (
    "0.17.0 0.17.1 0.17.2 0.17.3 0.18.0 0.19.0-rc1 0.19.0 0.19.1 0.19.2 0.20.0 0.20.1 0.20.2 "
    "0.20.3 0.20.4 0.20.5 0.21.0 0.21.1 0.22.0 0.23.0 0.23.1 0.23.2 0.24.0 0.25.0-rc1 "
    "0.25.0-rc2 0.25.0-rc3 0.25.0-rc4 0.25.0 0.25.1 0.25.2 0.26.0 0.27.0 0.27.1 0.28.0 0.29.0 "
    "0.29.1 0.29.2 0.29.3 0.29.4 0.30.0 0.30.1 0.30.2 0.31.0 0.32.0 0.32.1 0.33.0 0.33.1 "
    "0.34.0 0.34.1 0.34.2 0.35.0 0.36.0 0.36.1 0.37.0 0.37.1 0.37.2 0.38.0 0.38.1 0.39.0 "
    "0.40.0 0.41.0 0.42.0 0.42.1 0.42.2 0.43.0 0.43.1 0.44.0 0.45.0 0.46.0 0.46.1 0.46.2 "
    "0.46.3 0.47.0 0.47.1 0.47.2 0.47.3 0.47.4 0.48.0 0.49.0 0.49.1 0.49.2 0.50.0 0.50.1 "
    "0.50.2 0.51.0 0.52.0 0.53.0 0.53.1 0.54.0 0.55.0 0.56.0 0.57.0 0.57.1 0.58.0 0.59.0 "
    "0.60.0 0.61.0 0.62.0 0.62.1 0.63.0 0.64.0 0.64.1 0.65.0 0.66.0 0.67.0 0.67.1 0.68.0 "
    "0.69.0 0.70.0 1.0.0 1.0.1 1.1.0 1.2.0 1.3.0 1.4.0 1.4.1 1.4.2 1.5.0 1.5.1 1.6.0 1.7.0 "
    "1.8.0 1.9.0 1.10.0 1.11.0 1.11.1 1.12.0 1.12.1 1.12.2 1.12.3 1.13.0 1.13.1 1.13.2 1.14.0 "
    "1.14.1"
)
VERSIONS: Final = tuple(_NAMES.split())
_BUILTINS: Final = {
    "0.17.0": (
        "abs all and any array.concat array.slice assign base64.decode base64.encode "
        "base64url.decode base64url.encode cast_array cast_boolean cast_null cast_object cast_set "
        "cast_string concat contains count crypto.md5 crypto.sha1 crypto.sha256 "
        "crypto.x509.parse_certificates div endswith eq equal format_int glob.match "
        "glob.quote_meta gt gte http.send indexof intersection io.jwt.decode io.jwt.decode_verify "
        "io.jwt.encode_sign io.jwt.encode_sign_raw io.jwt.verify_es256 io.jwt.verify_hs256 "
        "io.jwt.verify_ps256 io.jwt.verify_rs256 is_array is_boolean is_null is_number is_object "
        "is_set is_string json.filter json.marshal json.unmarshal lower lt lte max min minus mul "
        "neq net.cidr_contains net.cidr_expand net.cidr_intersects net.cidr_overlap object.get "
        "opa.runtime or plus product re_match regex.find_all_string_submatch_n regex.find_n "
        "regex.globs_match regex.split regex.template_match rego.parse_module rem replace round "
        "set_diff sort split sprintf startswith strings.replace_n substring sum time.clock "
        "time.date time.now_ns time.parse_duration_ns time.parse_ns time.parse_rfc3339_ns "
        "time.weekday to_number trace trim trim_left trim_prefix trim_right trim_space "
        "trim_suffix type_name union units.parse_bytes upper urlquery.decode urlquery.encode "
        "urlquery.encode_object walk yaml.marshal yaml.unmarshal"
    ),
    "0.17.2": "object.filter object.remove object.union",
    "0.18.0": "bits.and bits.lsh bits.negate bits.or bits.rsh bits.xor json.remove",
    "0.19.0-rc1": "net.cidr_contains_matches",
    "0.19.0": "time.add_date",
    "0.20.0": (
        "graph.reachable io.jwt.verify_es384 io.jwt.verify_es512 io.jwt.verify_hs384 "
        "io.jwt.verify_hs512 io.jwt.verify_ps384 io.jwt.verify_ps512 io.jwt.verify_rs384 "
        "io.jwt.verify_rs512 uuid.rfc4122"
    ),
    "0.21.0": "crypto.x509.parse_certificate_request",
    "0.22.0": "numbers.range semver.compare semver.is_valid",
    "0.23.0": "regex.is_valid regex.match",
    "0.24.0": "base64.is_valid net.cidr_merge urlquery.decode_object",
    "0.25.0-rc1": "json.is_valid yaml.is_valid",
    "0.25.0-rc2": "base64url.encode_no_pad hex.decode hex.encode",
    "0.25.0": "json.patch",
    "0.26.0": "ceil floor",
    "0.28.0": "time.diff",
    "0.31.0": "crypto.x509.parse_and_verify_certificates rand.intn",
    "0.33.0": "crypto.x509.parse_rsa_private_key",
    "0.34.0": "internal.member_2 internal.member_3 internal.print print",
    "0.35.0": "net.lookup_ip_addr",
    "0.36.0": (
        "array.reverse crypto.hmac.md5 crypto.hmac.sha1 crypto.hmac.sha256 crypto.hmac.sha512 "
        "strings.reverse"
    ),
    "0.37.0": "graph.reachable_paths indexof_n object.union_n",
    "0.40.0": "rego.metadata.chain rego.metadata.rule",
    "0.41.0": (
        "graphql.is_valid graphql.parse graphql.parse_and_verify graphql.parse_query "
        "graphql.parse_schema units.parse"
    ),
    "0.42.0": "object.subset",
    "0.44.0": "strings.any_prefix_match strings.any_suffix_match",
    "0.45.0": "regex.replace",
    "0.46.0": "graphql.schema_is_valid net.cidr_is_valid",
    "0.47.0": "object.keys providers.aws.sign_req",
    "0.48.0": "time.format",
    "0.50.0": "json.match_schema json.verify_schema",
    "0.52.0": "crypto.hmac.equal",
    "0.53.0": "crypto.x509.parse_keypair",
    "0.55.0": "crypto.parse_private_keys",
    "0.56.0": "numbers.range_step",
    "0.57.0": "uuid.parse",
    "0.59.0": "strings.render_template",
    "0.63.0": "crypto.x509.parse_and_verify_certificates_with_options",
    "0.64.0": "json.marshal_with_options",
    "0.67.0": "strings.count",
    "1.2.0": "internal.test_case",
    "1.8.0": "io.jwt.verify_eddsa",
    "1.12.0": "internal.template_string",
    "1.13.0": "array.flatten",
}
_FEATURES: Final = {
    "0.46.0": "rule_head_ref_string_prefixes",
    "0.59.0": "rule_head_ref_string_prefixes rule_head_refs rego_v1_import",
    "1.0.0": "rego_v1",
    "1.6.0": "keywords_in_refs rego_v1",
    "1.12.0": "keywords_in_refs rego_v1 template_strings",
}
_KEYWORDS: Final = {
    "0.34.0": "in",
    "0.38.0": "every in",
    "0.42.0": "contains every if in",
    "1.0.0": "",
}
"""The keywords that an import turns on, by the first version with this list."""
_WASM: Final = {"0.27.0": (1,), "0.31.0": (1, 2)}
"""The minor versions of OPA's first WebAssembly ABI, by the first version with this list."""


def capabilities_of(version: str) -> dict[str, Any] | None:
    """Return the capabilities document of a version such as `v0.61.0`; None for an unknown version.

    Built-ins that Doorward does not have are left out.
    """
    name = version.removeprefix("v")
    if name not in VERSIONS:
        return None
    past = VERSIONS[: VERSIONS.index(name) + 1]
    names = {each for since in past for each in _BUILTINS.get(since, "").split()}
    document: dict[str, Any] = {
        "builtins": [to_declaration(each) for each in REGISTRY if each.name in names]
    }
    for key, table in (("future_keywords", _KEYWORDS), ("features", _FEATURES)):
        if listed := _newest_entry(past, table):
            document[key] = listed.split()
    minors: tuple[int, ...] = _newest_entry(past, _WASM) or ()
    if minors:
        document["wasm_abi_versions"] = [{"version": 1, "minor_version": n} for n in minors]
    return document


def _newest_entry(past: Sequence[str], table: Mapping[str, Any]) -> Any:
    """Return the entry of `table`, which is by OPA version, for the newest version in `past` that
    it contains; None if it contains none of them. `past` is in ascending order.
    """
    return next((table[each] for each in reversed(past) if each in table), None)
