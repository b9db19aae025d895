"""Proxies that ask over HTTP: the kit's configurations are right, and each omission is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from doorward.envoy.lint import check_paths
from doorward.envoy.lint.finding import RULES
from doorward.envoy.lint.forwarding import FORGED, check_caddy, check_nginx
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


def caddy_rules(text: str) -> set[tuple[int, str]]:
    return {(each.line, each.rule) for each in check_caddy("Caddyfile", text)}


def test_each_site_of_caddy_is_judged_alone(tmp_path: Path) -> None:
    write(tmp_path, "caddy")
    text = (tmp_path / "Caddyfile").read_text()
    other = "other:80 {\n\troute {\n\t\tforward_auth a:1 {\n\t\t\turi /x\n\t\t}\n\t}\n}\n"
    line = text.count("\n") + 3
    rules = ("connection", "forged-header", "question", "underscores")
    assert caddy_rules(text + other) == {(line, f"forward-{rule}") for rule in rules}


def test_snippets_and_named_routes_of_caddy_are_followed(tmp_path: Path) -> None:
    write(tmp_path, "caddy")
    text = (tmp_path / "Caddyfile").read_text()
    begin, end = text.index("\troute {") + len("\troute {"), text.rindex("\treverse_proxy")
    before, inner, after = text[:begin], text[begin:end], text[end:]
    options, site = before.split("http://", 1)
    snippet = f"{options}(ask) {{{inner}}}\nhttp://{site}\n\timport ask\n\t{after}"
    assert caddy_rules(snippet) == set()
    named = f"{options}&(ask) {{\nroute {{{inner}}}\n}}\nhttp://:8000 {{\n\tinvoke ask\n}}\n"
    assert caddy_rules(named) == set()
    removed = snippet.replace("request_header -remote-user", "request_header -{args[0]}")
    assert {rule for _, rule in caddy_rules(removed)} == {"forward-forged-header"}
    assert caddy_rules(removed.replace("import ask", "import ask remote-user")) == set()


@pytest.mark.parametrize(
    "text",
    [
        "(a) {\nimport a\nimport a\n}\n:80 {\nimport a\n}\n",
        "(a) {\nimport b\nimport b\n}\n(b) {\nimport a\nx\n}\n:80 {\nimport a\n}\n",
        "&(a) {\ninvoke a\n}\n:80 {\ninvoke a\n}\n",
        "(a) {\n{block}\n{block}\n}\n:80 {\n" + "import a {\n" * 40 + "x\n" + "}\n" * 41,
    ],
)
def test_imports_without_end_are_an_error(text: str) -> None:
    assert caddy_rules(text) == {(1, "forward-open")}


@pytest.mark.parametrize(
    "text",
    [
        # Outside of `route`, Caddy asks before it removes headers.
        ":80 {\nrequest_header -*\nforward_auth a:1 {\nuri /x\n}\n}\n",
        ":80\nrequest_header -*\nforward_auth a:1 {\nuri /x\n}\n",
        # Not removed: a comment, a text, another matcher, a text of several lines.
        ":80 {\nroute {\n# request_header -*\nforward_auth a:1\n}\n}\n",
        ":80 {\nroute {\nrespond /a `\nrequest_header -*\n`\nforward_auth a:1\n}\n}\n",
        ":80 {\nroute {\nrespond <<E\nrequest_header -*\nE\nforward_auth a:1\n}\n}\n",
        ":80 {\n@a path /a\nroute {\nrequest_header @a -*\nforward_auth a:1\n}\n}\n",
        # Another block removes them.
        ":80 {\nhandle /a {\nrequest_header -*\n}\nhandle {\nforward_auth a:1\n}\n}\n",
        # An unbalanced brace in a text opens no block.
        ':80 {\nrespond "{"\nroute {\nforward_auth a:1\nrequest_header -*\n}\n}\n',
    ],
)
def test_headers_that_caddy_does_not_remove_are_found(text: str) -> None:
    assert "forward-forged-header" in {rule for _, rule in caddy_rules(text)}


@pytest.mark.parametrize(
    "text",
    [
        "{\norder request_header before forward_auth\n}\n:80 {\nforward_auth a\nX\n}\n",
        "{\norder forward_auth after request_header\n}\n:80 {\nforward_auth a\nX\n}\n",
        ":80 {\nroute {\nforward_auth a\n}\nX\n}\n",
        ":80 {\nhandle /a* {\nforward_auth a\n}\nX\n}\n",
        "a:80,\nb:80 {\nroute {\nX\nforward_auth a\n}\n}\n",
        "(a) {\nX\n}\n:80 {\nroute {\nimport a\nforward_auth a\n}\n}\n",
        "(a) {\n{block}\nforward_auth a\n}\n:80 {\nroute {\nimport a {\nX\n}\n}\n}\n",
    ],
)
def test_headers_that_caddy_removes_are_not_found(text: str) -> None:
    names = {rule for _, rule in caddy_rules(text.replace("X", "request_header * -*"))}
    assert names == {"forward-question"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@plain not header Upgrade *", "@plain not header Upgrade websocket"),
        ("@upgrade header Upgrade *", "@upgrade header Upgrade websocket"),
        ("request_header @upgrade Connection Upgrade", "# {"),
    ],
)
def test_each_connection_must_be_treated(before: str, after: str, tmp_path: Path) -> None:
    write(tmp_path, "caddy")
    text = (tmp_path / "Caddyfile").read_text()
    assert before in text
    assert {rule for _, rule in caddy_rules(text.replace(before, after))} == {"forward-connection"}


NGINX_BLOCKS = [
    # Where each directive is: http, server or location; then the expected rules.
    ("", "", "ASK; PASS;", {"forged-header"}),
    ("", "ASK;", "PASS;", {"forged-header"}),
    ("ASK;", "", "PASS;", {"forged-header"}),
    ("", "ASK;", "limit_except GET { PASS; }", {"forged-header"}),
    ("", "ASK;", "location /a/b { PASS; }", {"forged-header"}),
    ("", "ASK;", "root /srv;", set()),
    # Headers are inherited, too, but only if the block sets none.
    ("", "ASK; CLEAR;", "PASS;", set()),
    ("ASK; CLEAR;", "", "PASS;", set()),
    ("", "ASK; CLEAR;", "PASS; proxy_set_header host x;", {"forged-header"}),
    ("", "ASK;", "PASS; CLEAR;", set()),
    # Nothing below `auth_request off` asks.
    ("ASK;", "auth_request off;", "PASS;", {"open"}),
]


@pytest.mark.parametrize(("http", "server", "location", "rules"), NGINX_BLOCKS)
def test_nginx_inherits_the_question(
    http: str, server: str, location: str, rules: set[str]
) -> None:
    clear = "; ".join(f'proxy_set_header {name} ""' for name in FORGED)
    question = (
        f"location = /ask {{ internal; PASS; {clear}; "
        "proxy_set_header x-original-method $request_method; "
        "proxy_set_header x-original-uri $request_uri; "
        "proxy_set_header x-original-content-length $http_content_length; "
        "proxy_set_header x-original-transfer-encoding $http_transfer_encoding; }"
    )
    text = f"http {{ {http} server {{ {server} {question}\nlocation /a {{ {location} }} }} }}"
    text = text.replace("ASK", "auth_request /ask").replace("PASS", "proxy_pass http://a")
    findings = list(check_nginx("a.conf", text.replace("CLEAR", clear)))
    assert {each.rule for each in findings} == {f"forward-{rule}" for rule in rules}
    assert {each.line for each in findings if each.rule == "forward-forged-header"} <= {2}


def clear_headers(directive: str) -> str:
    """Return directives of nginx that remove all headers that clients may forge."""
    names: list[str] = list(FORGED)
    if directive.endswith("_param"):
        names = ["HTTP_" + name.upper().replace("-", "_") for name in names]
    return " ".join(f'{directive} {name} "";' for name in names)


def rules_of_location(location: str, server: str = "") -> list[str]:
    text = f"server {{ auth_request /ask; {server} location / {{ {location} }} }}"
    return [each.rule for each in check_nginx("a.conf", text)]


MODULES = [
    ("proxy", "proxy_set_header"),
    ("grpc", "grpc_set_header"),
    ("fastcgi", "fastcgi_param"),
    ("uwsgi", "uwsgi_param"),
    ("scgi", "scgi_param"),
]


@pytest.mark.parametrize(("module", "directive"), MODULES)
def test_each_module_of_nginx_that_passes_requests_is_checked(module: str, directive: str) -> None:
    passes, clear = f"{module}_pass a:1;", clear_headers(directive)
    forged = ["forward-forged-header"]
    assert rules_of_location(passes) == forged
    assert rules_of_location(f"{passes} {clear}") == []
    assert rules_of_location(passes, server=clear) == []
    assert rules_of_location(f"{passes} {directive} HOST x;", server=clear) == forged
    # A file that is not read sets headers, so that none are inherited.
    include = f"include /etc/nginx/{module}_params;"
    assert rules_of_location(f"{passes} {include}", server=clear) == forged
    assert rules_of_location(f"{passes} {include} {clear}") == []
    # Another module does not read the directive.
    other = "grpc_set_header" if module == "proxy" else "proxy_set_header"
    assert rules_of_location(f"{passes} {clear_headers(other)}") == forged


@pytest.mark.parametrize("module", ["proxy", "fastcgi", "uwsgi", "scgi"])
def test_nginx_may_pass_no_header_of_clients(module: str) -> None:
    off = f"{module}_pass_request_headers off;"
    assert rules_of_location(f"{module}_pass a:1;", server=off) == []
    on = off.replace("off", "on")
    rules = rules_of_location(f"{module}_pass a:1; {on}", server=off)
    assert rules == ["forward-forged-header"]


@pytest.mark.parametrize("directive", ["fastcgi_param", "uwsgi_param", "scgi_param"])
def test_only_a_parameter_of_a_header_replaces_it(directive: str) -> None:
    passes = f"{directive.removesuffix('_param')}_pass a:1;"
    clear = clear_headers(directive)
    for other in (
        clear.replace("HTTP_REMOTE_USER", "REMOTE_USER"),
        clear.replace("HTTP_REMOTE_USER", "http_remote_user"),
    ):
        assert rules_of_location(f"{passes} {other}") == ["forward-forged-header"]
    replaced = clear.replace('HTTP_REMOTE_USER ""', "HTTP_REMOTE_USER $user if_not_empty")
    assert rules_of_location(f"{passes} {replaced}") == []
    for name in ("REMOTE_USER", "HTTP_REMOTE_USER"):
        forged = f"{clear} {directive} {name} $http_remote_user;"
        assert rules_of_location(f"{passes} {forged}") == ["forward-client-identity"]


def test_a_finding_names_the_file_that_is_not_read() -> None:
    text = "location / { auth_request /ask; include fastcgi_params; fastcgi_pass a:1; }"
    (finding,) = check_nginx("a.conf", text)
    assert finding.rule == "forward-forged-header"
    assert "`fastcgi_params` is not read" in finding.message


def test_servers_of_nginx_that_do_not_ask_are_passed_over() -> None:
    other = "server { location / { proxy_pass http://a; } }"
    assert list(check_nginx("a.conf", f"server {{ auth_request /ask; }} {other}")) == []


@pytest.mark.parametrize("text", ["a { auth_request x; " * 3_000, "a " * 100_000, "{" * 100_000])
def test_deep_and_long_nginx_configurations_are_read(text: str) -> None:
    assert list(check_nginx("a.conf", text)) == []


def test_every_rule_is_proven() -> None:
    assert {f"forward-{row[4]}" for row in WRONG} == {
        rule for rule in RULES if rule.startswith("forward-")
    }


def test_configurations_that_do_not_ask_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text("server { location / { proxy_pass http://a; } } }")
    (tmp_path / "haproxy.cfg").write_text("frontend a\n  bind :80\n")
    (tmp_path / "Caddyfile").write_text(":80 {\n  reverse_proxy a\n}\n")
    assert check_paths([tmp_path]) == []
