"""Proxies that ask over HTTP: the kit's configurations are right, and each omission is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from doorward.envoy.lint import check_paths
from doorward.envoy.lint.finding import RULES
from doorward.forward.kit import PROXY_FILES, Site, to_files

FILES = {"nginx": "doorward.nginx.conf", "haproxy": "haproxy.cfg", "caddy": "Caddyfile"}

WRONG: list[tuple[str, str, str, str, str]] = [
    # Proxy, file, what is changed, into what, the rule behind `forward-`.
    ("nginx", "", "auth_request /.doorward;", "auth_request /.doorward; satisfy any;", "open"),
    ("nginx", "", "  location = ", "  location /open { auth_request off; }\n  location = ", "open"),
    ("nginx", "", "X-Original-URI $request_uri", "X-Original-URI $uri", "question"),
    ("nginx", "", "      proxy_set_header X-Original-Method $request_method;\n", "", "question"),
    ("nginx", "", "x-original-content-length $http_content_length", 'x-a ""', "question"),
    ("nginx", "", "x-original-transfer-encoding $http_transfer_encoding", 'x-a ""', "question"),
    ("nginx", "", '      proxy_set_header remote-user "";\n', "", "forged-header"),
    ("nginx", "", "underscores_in_headers off", "underscores_in_headers on", "underscores"),
    ("haproxy", "", "http-request deny deny_status 403 if !{", "# {", "open"),
    ("haproxy", "", "  http-request del-header remote-user\n", "", "forged-header"),
    ("haproxy", "", "http-request deny deny_status 400 if { req.hdr_names", "# {", "underscores"),
    ("caddy", "", "request_header -remote-user", "", "forged-header"),
    ("caddy", "", "request_header @chunked x-original-transfer-encoding", "#", "question"),
    ("caddy", "", "header_up x-original-content-length", "#", "question"),
    ("caddy", "", "request_header -*_*", "", "underscores"),
    ("caddy", "", "request_header @plain -Connection", "", "connection"),
    (
        "caddy", "", "reverse_proxy 127.0.0.1:8080",
        "reverse_proxy 127.0.0.1:8080 {\n"
        "header_up X-Auth-Request-User {header.X-Auth-Request-User}\n}", "client-identity",
    ),
    (
        "nginx", "", "proxy_set_header x-user $decided_x_user;",
        "proxy_set_header x-user $decided_x_user;\n"
        "proxy_set_header X-Auth-Request-User $http_x_auth_request_user;", "client-identity",
    ),
    (
        "traefik", "dynamic.yaml", '"trustForwardHeader": false',
        '"trustForwardHeader": true', "question",
    ),
    ("traefik", "dynamic.yaml", '"maxBodySize": 8192,', "", "body"),
    ("traefik", "dynamic.yaml", '"remote-user": "",', "", "forged-header"),
    ("traefik", "dynamic.yaml", '"strip",', "", "forged-header"),
    ("traefik", "traefik.yaml", '"reject"', '"keep"', "underscores"),
]  # fmt: skip


def write(folder: Path, proxy: str) -> None:
    for name, text in to_files(proxy, Site(secret="s" * 16, response_headers=("x-user",))).items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("proxy", PROXY_FILES)
def test_what_the_kit_writes_is_right(proxy: str, tmp_path: Path) -> None:
    write(tmp_path, proxy)
    assert check_paths([tmp_path]) == []


@pytest.mark.parametrize(("proxy", "name", "before", "after", "rule"), WRONG)
def test_an_omission_is_named(
    proxy: str, name: str, before: str, after: str, rule: str, tmp_path: Path
) -> None:
    write(tmp_path, proxy)
    path = tmp_path / (name or FILES[proxy])
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    findings = check_paths([tmp_path])
    assert {finding.rule for finding in findings} == {f"forward-{rule}"}
    assert all(finding.line <= path.read_text().count("\n") + 1 for finding in findings)


def test_each_frontend_of_haproxy_is_judged_alone(tmp_path: Path) -> None:
    write(tmp_path, "haproxy")
    path = tmp_path / "haproxy.cfg"
    text = path.read_text()
    path.write_text(f"{text}\nfrontend other\n  http-request lua.doorward\n")
    findings = check_paths([tmp_path])
    assert {finding.line for finding in findings} == {len(path.read_text().splitlines())}
    assert {finding.rule for finding in findings} == {
        "forward-open",
        "forward-underscores",
        "forward-forged-header",
    }


def test_every_rule_is_proven() -> None:
    assert {f"forward-{row[4]}" for row in WRONG} == {
        rule for rule in RULES if rule.startswith("forward-")
    }


def test_configurations_that_do_not_ask_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text("server { location / { proxy_pass http://a; } } }")
    (tmp_path / "haproxy.cfg").write_text("frontend a\n  bind :80\n")
    (tmp_path / "Caddyfile").write_text(":80 {\n  reverse_proxy a\n}\n")
    assert check_paths([tmp_path]) == []
