"""The configuration file becomes a frozen Config, or an error that names file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doorward.config.cache_options import CacheOptions
from doorward.config.configuration import (
    Config,
    ConfigError,
    DecisionLogs,
    Evaluation,
    active_config,
    parse_config,
    read_config,
)

QUICK_START = """\
plugins:
  envoy_ext_authz_grpc:
    addr: :9191
    path: envoy/authz/allow
decision_logs:
  console: true
"""


def parse(text: str, *overrides: str, **environment: str) -> Config:
    return parse_config(text, file="c.yaml", overrides=overrides, environment=environment)


def test_the_quick_start_is_understood_without_a_warning() -> None:
    config = parse(QUICK_START)
    assert config.warnings == ()
    assert config.decision_logs.console
    assert config.plugins["envoy_ext_authz_grpc"].plain() == {
        "addr": ":9191",
        "path": "envoy/authz/allow",
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "null"])
def test_an_empty_file_gives_the_defaults(text: str) -> None:
    config = parse(text)
    assert config.default_decision == "system/main"
    assert config.decision_logs == DecisionLogs()
    assert config.decision_logs.mask_credentials


def test_json_is_yaml() -> None:
    assert parse('{"labels": {"app": "demo"}}').labels == {"app": "demo"}


def test_the_old_name_of_the_plugin_is_the_new_one() -> None:
    config = parse("plugins:\n  envoy.ext_authz.grpc:\n    path: a/b\n")
    assert config.plugins["envoy_ext_authz_grpc"].values == {"path": "a/b"}


def test_an_unknown_key_is_a_warning_that_names_it_and_its_line() -> None:
    config = parse("labels: {}\nlables:\n  a: b\ndecision_logs:\n  consol: true\n")
    assert config.warnings == (
        "c.yaml:2: lables: unknown key, ignored: did you mean `labels`?",
        "c.yaml:5: decision_logs.consol: unknown key, ignored: did you mean `console`?",
    )


def test_limits_of_a_decision_are_read() -> None:
    assert parse("").evaluation == Evaluation(deadline=5.0, max_items=10_000_000)
    config = parse("evaluation: {deadline_seconds: 0.5, max_items: 1000, other: 1}")
    assert config.evaluation == Evaluation(deadline=0.5, max_items=1000)
    assert config.warnings == ("c.yaml:1: evaluation.other: unknown key, ignored",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deadline_seconds: 0", "must be above 0 and at most 3600 but is 0"),
        ("deadline_seconds: -1", "must be above 0 and at most 3600 but is -1"),
        ("deadline_seconds: 3601", "must be above 0 and at most 3600 but is 3601"),
        ("deadline_seconds: .nan", "must be above 0 and at most 3600 but is nan"),
        ("deadline_seconds: 5s", "must be a number but is a string"),
        ("max_items: -1", "must not be negative but is -1"),
        ("max_items: 1.5", "must be an integer but is a number"),
        ("max_items: true", "must be an integer but is true or false"),
    ],
)
def test_limits_that_are_none_are_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f"evaluation:\n  {text}\n")
    key = text.partition(":")[0]
    assert str(raised.value) == f"c.yaml:2: evaluation.{key} {message}"


def test_what_the_api_serves_is_read() -> None:
    assert parse("").server.decision_paths is None
    config = parse("server: {decision_paths: [/a/b/, c]}")
    assert (config.server.decision_paths, config.warnings) == (("a/b", "c"), ())
    assert parse("server: {decision_paths: []}").server.decision_paths == ()
    with pytest.raises(
        ConfigError, match=r"^c.yaml:1: server.decision_paths must be paths of documents"
    ):
        parse("server: {decision_paths: [a, /]}")


def test_limits_of_the_decision_log_are_read() -> None:
    reporting = "{buffer_size_limit_bytes: 7, buffer_size_limit_events: 8}"
    config = parse(f"decision_logs: {{reporting: {reporting}}}")
    assert (config.decision_logs.buffer_bytes, config.decision_logs.buffer_size) == (7, 8)
    assert config.warnings == ()


def test_what_is_not_followed_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^c.yaml:1: storage is not supported"):
        parse("storage:\n  disk: {}\n")
    with pytest.raises(ConfigError, match=r'^c.yaml:1: plugins.foo: plugin "foo" not registered'):
        parse("plugins: {foo: {}}\n")
    with pytest.raises(ConfigError, match=r'^c.yaml:2: bundles.a.service: service name "x" not'):
        parse("bundles:\n  a: {resource: b.tar.gz, service: x}\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "c.yaml:1: "),
        ("- 1", "c.yaml:1: the configuration must be an object but is a list"),
        ("decision_logs: 1", "c.yaml:1: decision_logs must be an object but is an integer"),
        (
            "decision_logs:\n\n  console: 'true'",
            "c.yaml:3: decision_logs.console must be true or false but is a string",
        ),
        ("labels:\n  a: 1", "c.yaml:2: labels.a must be a string but is an integer"),
        ("default_decision: [1]", "c.yaml:1: default_decision must be a string but is a list"),
        ("labels: {}\nlabels: {}", "c.yaml:2: the key `labels` is repeated"),
        (
            "server:\n  decoding: {max_length: 0}",
            "c.yaml:2: server.decoding.max_length must be greater than 0 but is 0",
        ),
        (
            "decision_logs: {request_context: {http: {headers: [1]}}}",
            "c.yaml:1: decision_logs.request_context.http.headers must be a list of strings",
        ),
        (
            "plugins: {envoy_ext_authz_grpc: {}, envoy.ext_authz.grpc: {}}",
            "c.yaml:1: plugins.envoy.ext_authz.grpc is configured twice",
        ),
        ("? [a]\n: 1", "c.yaml:1: a key of a YAML mapping must be a string"),
        ("[" * 100_000, "c.yaml:1: the YAML is nested too deeply"),
        ("a: " + "[" * 70 + "]" * 70, "c.yaml:1: the YAML is nested deeper than 60 levels"),
    ],
)
def test_a_wrong_type_is_an_error_that_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)


def test_a_file_that_unfolds_without_end_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="more than 200000 values with its aliases expanded"):
        parse("\n".join(lines))


def test_a_variable_is_replaced_by_the_environment() -> None:
    text = "default_decision: /a/${NAME}/allow\nlabels: {region: '${REGION}'}\n"
    config = parse(text, NAME="b", REGION="")
    assert config.default_decision == "a/b/allow"
    assert config.labels == {"region": ""}


def test_a_variable_that_is_not_set_stays_with_a_warning() -> None:
    config = parse("labels:\n  region: ${REGION}\n")
    assert config.labels == {"region": "${REGION}"}
    text = "environment variable `REGION` is not set: `${REGION}` stays as it is"
    assert config.warnings == (f"c.yaml:2: labels.region: {text}",)


def test_a_variable_that_is_not_set_is_no_secret() -> None:
    for text in (
        "keys:\n  k: {algorithm: HS256, key: '${KEY}'}\n",
        "services: {a: {url: 'http://a',\n  credentials: {bearer: {token: '${KEY}'}}}}\n",
    ):
        with pytest.raises(
            ConfigError, match=r"c\.yaml:2: .*environment variable `KEY` is not set$"
        ):
            parse(text)
    with pytest.raises(ConfigError, match=r"keys\.k\.key: environment variable `KEY` is not set$"):
        parse_config("", overrides=["keys.k.key=${KEY}"], environment={})


def test_a_variable_of_an_override_that_is_not_set_stays_too() -> None:
    config = parse_config("", overrides=["labels.a=${A}", "labels.b=x"], environment={})
    assert config.labels["a"] == "${A}"
    assert [each for each in config.warnings if "`A` is not set" in each]


def test_a_variable_is_read_as_yaml_only_where_it_is_not_quoted() -> None:
    text = "decision_logs: {console: ${ON}}\nlabels: {on: '${ON}'}\n"
    config = parse(text, ON="true")
    assert config.decision_logs.console
    assert config.labels == {"on": "true"}


def test_a_variable_can_never_add_a_key() -> None:
    config = parse("labels: {a: ${X}}\n", X="b, admin: yes\nmore: c")
    assert config.labels == {"a": "b, admin: yes\nmore: c"}


def test_overrides_come_on_top_of_the_file() -> None:
    config = parse(
        QUICK_START,
        "decision_logs.console=false",
        "plugins.envoy_ext_authz_grpc.addr=:9292",
        r"labels.a\.b=c",
    )
    assert not config.decision_logs.console
    assert config.plugins["envoy_ext_authz_grpc"].values["addr"] == ":9292"
    assert config.plugins["envoy_ext_authz_grpc"].values["path"] == "envoy/authz/allow"
    assert config.labels == {"a.b": "c"}


def test_an_override_may_hold_several_and_reach_into_lists() -> None:
    config = parse("", "labels.a=x,labels.b=y", r"labels.c=1\,2")
    assert config.labels == {"a": "x", "b": "y", "c": "1,2"}
    config = parse(
        "", "x[0].a=1", "x[1].b=null", "y={1,2}", r"z.a\.b=c", "w=[1,2]", "v={a: 1,b: 2}"
    )
    assert config.document == {
        "v": {"a": 1, "b": 2},
        "w": [1, 2],
        "x": [{"a": 1}, {"b": None}],
        "y": [1, 2],
        "z": {"a.b": "c"},
    }
    with pytest.raises(ConfigError, match=r"item 3 cannot be set: the list has only 0 items"):
        parse("", "x[3]=1")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("services[0].url=https://b", "`0` cannot be set: it would be below an object"),
        ("x[0].a=1", "`a` cannot be set: it would be below a string"),
        ("x[1][0]=1", "`0` cannot be set: it would be below an integer"),
        ("labels.a.b=1", "labels.a must be an object but is a string"),
    ],
)
def test_an_override_does_not_replace_what_it_would_be_below(setting: str, message: str) -> None:
    text = "services: {a: {url: https://a}}\nx: [text, 1]\nlabels: {a: x}"
    with pytest.raises(ConfigError, match=message):
        parse(text, setting)


def test_an_override_may_be_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("from: file")
    config = read_config(None, files=[f"labels.a={tmp_path / 'f'}"])
    assert config.labels == {"a": "from: file"}
    (tmp_path / "f").write_bytes(b"\xff")
    for setting, message in [
        ("labels.a", "expected KEY.KEY=FILE"),
        ("labels.a=/none", "no such file"),
        (f"labels.a={tmp_path / 'f'}", "not UTF-8"),
    ]:
        with pytest.raises(ConfigError, match=message):
            read_config(None, files=[setting])


@pytest.mark.parametrize("setting", ["decision_logs.console", "=1", "a..b=1", "a[x]=1"])
def test_an_override_needs_a_key_and_a_value(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"expected KEY\.KEY=VALUE"):
        parse("", setting)


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        read_config(str(tmp_path / "missing.yaml"))
    (tmp_path / "c.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 3"):
        read_config(str(tmp_path / "c.yaml"))


def test_the_sizes_of_caches_are_read() -> None:
    assert parse("").caching == CacheOptions()
    config = parse(
        "nd_builtin_cache: true\n"
        "caching:\n"
        "  inter_query_builtin_cache:\n"
        "    max_size_bytes: 1000\n"
        "    forced_eviction_threshold_percentage: 70\n"
        "    stale_entry_eviction_period_seconds: 10\n"
        "  inter_query_builtin_value_cache:\n"
        "    max_num_entries: 5\n"
        "    named: {io_jwt: {max_num_entries: 6}, graphql: {max_num_entries: 7}}\n"
    )
    assert config.nd_builtin_cache
    assert config.caching == CacheOptions(1000, 70, 10, 6)
    path = "caching.inter_query_builtin_value_cache"
    assert config.warnings == (
        f"c.yaml:9: {path}.named.graphql: ignored: the cache has a fixed size",
        f"c.yaml:8: {path}.max_num_entries: ignored: the cache has a fixed size",
    )
    assert parse("caching: {inter_query_builtin_cache: {max_size_bytes: -1}}").caching == (
        CacheOptions()
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forced_eviction_threshold_percentage: 101", "must be from 0 to 100 but is 101"),
        ("forced_eviction_threshold_percentage: -1", "must be from 0 to 100 but is -1"),
        ("stale_entry_eviction_period_seconds: -1", "must not be negative but is -1"),
        ("max_size_bytes: many", "must be an integer but is a string"),
    ],
)
def test_sizes_of_caches_that_are_none_are_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f"caching:\n  inter_query_builtin_cache:\n    {text}\n")
    key = text.partition(":")[0]
    path = f"caching.inter_query_builtin_cache.{key}"
    assert str(raised.value) == f"c.yaml:3: {path} {message}"


def test_a_cache_has_no_less_than_no_entries() -> None:
    value = "inter_query_builtin_value_cache"
    with pytest.raises(ConfigError, match=r"max_num_entries must not be negative but is -2"):
        parse(f"caching: {{{value}: {{named: {{io_jwt: {{max_num_entries: -2}}}}}}}}")


def test_the_active_configuration_has_no_password_of_a_url() -> None:
    text = json.dumps({"services": {"s": {"url": "https://u:geheim@h/x"}}})
    assert "geheim" not in str(active_config(parse_config(text, environment={})))
