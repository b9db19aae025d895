"""What cannot work of services, keys, bundles, discovery and status is refused by its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.config.configuration import Config, ConfigError, parse_config
from doorward.config.services import AwsSigning, AwsSource, Bearer, ClientTls, OAuth2

SERVICE = {"s": {"url": "http://s"}}
KEYS = {"k": {"algorithm": "HS256", "key": "hidden-one", "private_key": "hidden-one"}}


def parse(**blocks: Any) -> Config:
    return parse_config(json.dumps(blocks), file="c.json", environment={})


def with_credentials(**credentials: Any) -> Any:
    services = {"s": {"url": "https://s", "credentials": credentials}}
    return parse(services=services, keys=KEYS).services["s"].credentials


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"services": {"a": {}}}, "services.a.url must be an http:// or https:// URL"),
        (
            {"services": {"a": {"url": "http:///v1"}}},
            "services.a.url must be an http:// or https:// URL with a host",
        ),
        ({"services": {"a": {"url": "ftp://x"}}}, "services.a.url must be"),
        ({"services": [{"url": "http://x"}]}, "a service in a list needs a `name`"),
        ({"services": [1]}, "services must be a list of objects"),
        (
            {"services": {"a": {"url": "http://x", "response_header_timeout_seconds": -1}}},
            "must be 0 seconds or more",
        ),
        ({"keys": {"k": {"algorithm": "HS256"}}}, "no keys provided for key ID k"),
        ({"keys": {"k": {"algorithm": "FOO", "key": "x"}}}, "unsupported algorithm 'FOO'"),
        ({"bundles": {"x": {"resource": "/x"}}}, 'service name "" not found'),
        ({"bundles": {"../x": {}}, "services": SERVICE}, "must be printable, not empty"),
        ({"bundles": {"/": {}}, "services": SERVICE}, "must be printable, not empty"),
        (
            {"bundles": {"a/b": {}, "/a//b": {}}, "services": SERVICE},
            "this bundle would be stored in the folder of `a/b`",
        ),
        (
            {"bundles": {"x": {"polling": {"min_delay_seconds": 1}}}, "services": SERVICE},
            "configuration missing 'max_delay_seconds'",
        ),
        (
            {
                "bundles": {"x": {"polling": {"min_delay_seconds": 2, "max_delay_seconds": 1}}},
                "services": SERVICE,
            },
            "max polling delay must be >= min polling delay",
        ),
        (
            {
                "bundles": {"x": {"polling": {"long_polling_timeout_seconds": 0}}},
                "services": SERVICE,
            },
            "must be from 1 to 86400 seconds",
        ),
        (
            {"bundles": {"x": {"signing": {"keyid": "z"}}}, "services": SERVICE},
            "key id z not found",
        ),
        ({"bundles": {"x": {"signing": {}}}, "services": SERVICE}, "no key to verify with"),
        ({"bundles": {"x": {"trigger": "now"}}, "services": SERVICE}, "invalid trigger mode"),
        ({"discovery": {}, "services": SERVICE}, "missing required discovery.resource field"),
        ({"discovery": {"resource": "x"}}, "does not have exactly one"),
        ({"status": {"service": "z"}, "services": SERVICE}, 'service name "z" not found'),
        (
            {"status": {"plugin": "z"}},
            'invalid plugin name "z" in status: plugins are not supported',
        ),
        ({"bundle": {"name": "x"}, "bundles": {}, "services": SERVICE}, "either `bundle` or"),
    ],
)
def test_what_cannot_work_is_refused(blocks: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(**blocks)
    assert message in str(raised.value)


def with_kms(**options: Any) -> dict[str, Any]:
    """Credentials that are signed in AWS KMS, with other `options`."""
    kms = {
        "token_url": "https://x",
        "aws_kms": {"name": "n", "algorithm": "ECDSA_SHA_256"},
        "aws_signing": {"service": "kms", "environment_credentials": {}},
    }
    return {"oauth2": {**kms, **options}}


@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        ({"bearer": {"token": "a", "token_path": "b"}}, "specify a value for either"),
        ({"bearer": {}, "plugin": "x"}, "a maximum one credential method"),
        ({"client_tls": {"cert": "c"}}, "private_key is needed"),
        ({"oauth2": {"token_url": "http://x"}}, "token_url required to use https scheme"),
        ({"oauth2": {"token_url": "https://x", "grant_type": "x"}}, "grant_type must be either"),
        ({"oauth2": {"token_url": "https://x", "client_secret": "s"}}, "client_id and"),
        ({"oauth2": {"azure_keyvault": {}}}, "keys in Azure Key Vault are not supported"),
        (with_kms(aws_signing=None), "aws_kms and aws_signing required"),
        (with_kms(aws_kms={"name": "n", "algorithm": "RS"}), "unsupported sign algorithm RS"),
        (
            with_kms(aws_kms={"algorithm": "ECDSA_SHA_256"}),
            "must not be empty: name the key in AWS KMS",
        ),
        (with_kms(aws_signing={"environment_credentials": {}}), "service must be `kms`"),
        (
            with_kms(grant_type="jwt_bearer"),
            "aws_kms can only be used with the grant type client_credentials",
        ),
        (with_kms(client_secret="s"), "set exactly one of client_secret"),
        (
            {"s3_signing": {"environment_credentials": {}, "signature_version": "9"}},
            "signature_version must be 4 or 4a but is `9`",
        ),
        ({"s3_signing": {"assume_role_credentials": {}}}, "AWS signing plugin must be specified"),
        (
            {"s3_signing": {"assume_role_credentials": {"aws_signing": {"sso_credentials": {}}}}},
            "unsupported AWS signing plugin with AssumeRole",
        ),
        (
            {"s3_signing": {"environment_credentials": {}, "service": "ecr"}},
            'aws service "ecr" must be used with service type "oci"',
        ),
        ({"s3_signing": {"metadata_credentials": {}}}, "aws_region must be specified"),
        (
            {"gcp_metadata": {"audience": "a", "scopes": ["s"]}},
            "exactly one of audience and scopes",
        ),
        ({"unheard_of": {}}, "unknown credentials; use one of bearer, client_tls, "),
    ],
)
def test_credentials_that_cannot_work_are_refused(
    credentials: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        with_credentials(**credentials)
    assert message in str(raised.value)


def test_credentials_are_read() -> None:
    assert with_credentials(bearer={"token": "t"}) == Bearer("t")
    assert with_credentials(client_tls={"cert": "c", "private_key": "k"}) == ClientTls("c", "k")
    credentials = with_credentials(
        oauth2={"token_url": "https://x", "client_id": "i", "client_secret": "s", "scopes": ["a"]}
    )
    assert isinstance(credentials, OAuth2)
    assert (credentials.client_id, credentials.scopes) == ("i", ("a",))
    credentials = with_credentials(
        s3_signing={"profile_credentials": {"profile": "p", "aws_region": "r"}, "service": "S3"}
    )
    assert credentials == AwsSigning((AwsSource("profile", region="r", profile="p"),))
    credentials = with_credentials(
        s3_signing={
            "sso_credentials": {"profile": "p", "cache_path": "/c"},
            "assume_role_credentials": {
                "iam_role_arn": "arn",
                "aws_signing": {"environment_credentials": {}},
            },
        }
    )
    # In the order in which AWS' own libraries try them.
    assert credentials == AwsSigning(
        (
            AwsSource("assume_role", role="arn", signing=AwsSource("environment")),
            AwsSource("sso", profile="p", cache_path="/c"),
        )
    )
    assert "hidden-one" not in repr(parse(keys=KEYS))


def test_services_in_a_list_have_names_and_the_first_is_the_default() -> None:
    config = parse(
        services=[{"name": "b", "url": "http://b/"}, {"name": "a", "url": "http://a"}],
        bundles={"x": {}, "y": {"resource": "file:///tmp/a%20b"}},
        status={},
    )
    assert list(config.services) == ["b", "a"]
    assert config.bundles["x"].service == "b"
    assert config.bundles["y"].file == "/tmp/a b"
    assert config.status is not None
    assert config.status.service == "b"


def test_unknown_keys_are_said() -> None:
    config = parse(services={"s": {"url": "http://s", "colour": 1}})
    assert config.warnings == ("c.json:1: services.s.colour: unknown key, ignored",)
