"""Configurations as in the documentation of OPA: a key is followed, or refused at its line."""

from __future__ import annotations

import re

import pytest

from doorward.config.configuration import HTTP_BUCKETS, ConfigError, parse_config
from doorward.telemetry.metrics import Metrics

SERVICE = "services:\n  acmecorp:\n    url: https://example.com/\n"
KEYS = "keys:\n  k: {algorithm: RS512, private_key: key.pem}\n"
BUNDLE = SERVICE + "bundles:\n  authz: {service: acmecorp, "
LOGS = SERVICE + "decision_logs: {service: acmecorp, "
TRACES = "distributed_tracing: {type: grpc, "

FOLLOWED = [
    "labels: {app: myapp, region: west}\ndefault_decision: /http/authz/allow\n"
    "default_authorization_decision: /system/authz/allow\npersistence_directory: /var/opa\n"
    "nd_builtin_cache: true\n",
    SERVICE + "    response_header_timeout_seconds: 5\n    headers: {a: b}\n"
    "    allow_insecure_tls: true\n    type: oci\n"
    "    tls: {ca_cert: ca.pem, system_ca_required: true}\n",
    "services:\n  - name: a\n    url: https://example.com\n  - name: b\n    url: http://b\n",
    "services: {a: {url: '${URL}'}}\n",
    BUNDLE + "resource: 'bundles/${NAME}.tar.gz', persist: true, trigger: periodic,"
    " size_limit_bytes: 1000, polling: {min_delay_seconds: 1, max_delay_seconds: 2,"
    " long_polling_timeout_seconds: 10}, signing: {keyid: k, scope: write,"
    " exclude_files: [data.json]}}\nkeys: {k: {algorithm: HS256, key: secret, scope: read}}\n",
    BUNDLE + "trigger: manual}\n",
    "bundles:\n  authz: {resource: 'file:///policies/b.tar.gz'}\n",
    SERVICE + "discovery: {name: example, prefix: c, decision: example/discovery, persist: true,"
    " service: acmecorp, resource: r, trigger: periodic, signing: {keyid: k},"
    " polling: {min_delay_seconds: 1, max_delay_seconds: 2}}\n"
    "keys: {k: {algorithm: HS256, key: secret}}\n",
    LOGS + "resource: /logs, partition_name: p, console: true, mask_decision: /system/log/mask,"
    " drop_decision: /system/log/drop, request_context: {http: {headers: [X]}},"
    " reporting: {buffer_type: event, buffer_size_limit_events: 100, min_delay_seconds: 1,"
    " max_delay_seconds: 2, upload_size_limit_bytes: 32768, trigger: periodic}}\n",
    LOGS + "reporting: {buffer_type: size, buffer_size_limit_bytes: 1000000}}\n",
    LOGS + "reporting: {max_decisions_per_second: 100}}\n",
    SERVICE + "status: {service: acmecorp, console: true, prometheus: true, partition_name: x,"
    " trigger: periodic, prometheus_config: {collectors: {bundle_loading_duration_ns:"
    " {buckets: [1, 1000]}}}}\n",
    "caching: {inter_query_builtin_cache: {max_size_bytes: 10000000,"
    " forced_eviction_threshold_percentage: 70, stale_entry_eviction_period_seconds: 3600},"
    " inter_query_builtin_value_cache: {named: {io_jwt: {max_num_entries: 55}}}}\n",
    "server:\n  encoding: {gzip: {min_length: 1024, compression_level: 9}}\n"
    "  decoding: {max_length: 1000, gzip: {max_length: 10000}}\n"
    "  metrics: {prom: {http_request_duration_seconds: {buckets: [0.1, 1]}}}\n",
    TRACES + "address: 'localhost:4317', service_name: opa, sample_percentage: 50,"
    " encryption: mtls, tls_cert_file: c, tls_private_key_file: k, tls_ca_cert_file: a,"
    " resource: {service_version: v, service_instance_id: i, service_namespace: s,"
    " deployment_environment: e}, batch_span_processor_options: {export_timeout_ms: 100,"
    " batch_timeout_ms: 5, max_export_batch_size: 10, max_queue_size: 100}}\n",
    "plugins: {envoy_ext_authz_grpc: {addr: ':9191', path: envoy/authz/allow, dry-run: false,"
    " enable-reflection: true, grpc-max-recv-msg-size: 1000, grpc-max-send-msg-size: 1000,"
    " skip-request-body-parse: false, enable-performance-metrics: true}}\n",
    *[
        f"{SERVICE}    credentials: {{{credentials}}}\n{KEYS}"
        for credentials in (
            "bearer: {token: abc, scheme: Basic}",
            "bearer: {token_path: /var/run/token}",
            "client_tls: {cert: c.pem, private_key: k.pem, private_key_passphrase: x,"
            " ca_cert: a.pem, system_ca_required: true}",
            "oauth2: {token_url: 'https://a/token', client_id: x, client_secret: z, scopes: [s],"
            " additional_headers: {a: b}, additional_parameters: {c: d}}",
            "oauth2: {grant_type: jwt_bearer, token_url: 'https://a/token', signing_key: k,"
            " scopes: [a], additional_claims: {aud: x, iss: i, sub: s}}",
            "oauth2: {grant_type: client_credentials, token_url: 'https://a/token',"
            " signing_key: k, include_jti_claim: true,"
            " thumbprint: 8F1BDDDE9982299E62749C20EDDBAAC57F619D04}",
            "oauth2: {token_url: 'https://a/token', client_id: x, client_assertion: abc}",
            "oauth2: {token_url: 'https://a/token', client_id: x, client_assertion_path: /p}",
            "s3_signing: {environment_credentials: {}}",
            "s3_signing: {metadata_credentials: {aws_region: us-east-1, iam_role: my_role}}",
            "s3_signing: {web_identity_credentials: {aws_region: us-east-1, session_name: s,"
            " aws_domain: x.com}}",
            "s3_signing: {profile_credentials: {path: /x, profile: default, aws_region: r}}",
            "s3_signing: {assume_role_credentials: {aws_region: r, session_name: s,"
            " iam_role_arn: 'arn:aws:iam::1:role/x',"
            " aws_signing: {profile_credentials: {profile: p}}}}",
            "s3_signing: {sso_credentials: {profile: p, path: /x, cache_path: /y}}",
            "s3_signing: {service: execute-api, environment_credentials: {},"
            " signature_version: '4'}",
            "s3_signing: {environment_credentials: {}, signature_version: 4a}",
            "oauth2: {token_url: 'https://a/token', aws_kms: {name: 'arn:x',"
            " algorithm: ECDSA_SHA_256}, aws_signing: {service: kms, environment_credentials: {}}}",
            "gcp_metadata: {audience: 'https://x'}",
            "gcp_metadata: {scopes: [a], endpoint: 'http://127.0.0.1:1', access_token_path: /a,"
            " identity_token_path: /b}",
            "azure_managed_identity: {endpoint: 'http://127.0.0.1:1', api_version: '2018-02-01',"
            " resource: 'https://storage.azure.com/', object_id: a, client_id: b, mi_res_id: c,"
            " use_app_service_msi: true}",
        )
    ],
]

REFUSED = [
    ("storage: {disk: {directory: /d, auto_create: true}}\n", 1),
    ("labels: {a: b}\nlabels: {c: d}\n", 2),
    ("keys:\n  a: {key: '${UNSET}'}\n", 2),
    ("server:\n  encoding:\n    gzip: {compression_level: 10}\n", 3),
    ("server:\n  metrics: {prom: {http_request_duration_seconds: {buckets: [1, 1]}}}\n", 2),
    (TRACES + "sample_percentage: 101}\n", 1),
    (TRACES + "batch_span_processor_options: {blocking: true}}\n", 1),
    (TRACES + "encryption: tls, allow_insecure_tls: true}\n", 1),
    (BUNDLE + "trigger: soon}\n", 5),
    (BUNDLE + "polling: {min_delay_seconds: 10, max_delay_seconds: 5}}\n", 5),
    (BUNDLE + "signing: {keyid: nope}}\n", 5),
    (LOGS + "reporting: {buffer_type: foo}}\n", 4),
    *[
        (f"{SERVICE}    credentials:\n      {credentials}\n", 5)
        for credentials in (
            "plugin: my_auth",
            "basic: {}",
            "oauth2: {token_url: 'https://a', aws_kms: {name: n, algorithm: ECDSA_SHA_256}}",
            "oauth2: {token_url: 'https://a', azure_keyvault: {key: k, vault: v}}",
            "s3_signing: {environment_credentials: {}, signature_version: 5}",
            "gcp_metadata: {scopes: [a], audience: x}",
        )
    ],
]
ENVIRONMENT = {"URL": "https://example.com", "NAME": "n"}


@pytest.mark.parametrize("text", FOLLOWED)
def test_a_key_of_opa_is_followed(text: str) -> None:
    config = parse_config(text, file="c.yaml", environment=ENVIRONMENT)
    assert not config.warnings


@pytest.mark.parametrize(("text", "line"), REFUSED)
def test_what_cannot_be_followed_is_refused_at_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"c.yaml:{line}: ")):
        parse_config(text, file="c.yaml", environment=ENVIRONMENT)


def test_buckets_are_those_of_the_configuration() -> None:
    name = "http_request_duration_seconds"
    text = f"server: {{metrics: {{prom: {{{name}: {{buckets: [0.5, 2]}}}}}}}}\n"
    for buckets, least in (
        (parse_config(text, environment={}).server.buckets, 0.5),
        (parse_config("", environment={}).server.buckets, HTTP_BUCKETS[0]),
    ):
        metrics = Metrics("1", buckets)
        metrics.http_request_duration_seconds.labels(200, "v1/data", "get").observe(1)
        (family,) = [each for each in metrics.registry.collect() if each.name == name]
        bounds = [each.labels["le"] for each in family.samples if each.name.endswith("_bucket")]
        assert float(bounds[0]) == least
        assert len(bounds) == len(buckets) + 1
