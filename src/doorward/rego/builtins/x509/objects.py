"""Certificates and requests as the objects that OPA's policies know: Go's structures as JSON.

Bytes are base64, times RFC 3339, object identifiers lists of numbers, algorithms and usages Go's
numbers for them. Raw parts are the certificate's own bytes. Nothing is verified here.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from doorward.rego.builtins.x509.certificates import (
    STRINGS,
    SUBJECT_ALTERNATIVE_NAME,
    Certificate,
    Extension,
    Name,
    Names,
    add_names,
    parse_algorithm,
    parse_extension,
    parse_name,
    right_aligned,
    signature_algorithm,
    text_of,
)
from doorward.rego.builtins.x509.der import (
    BOOLEAN,
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    Element,
    Oid,
    Reader,
    read,
)
from doorward.rego.builtins.x509.public_keys import PublicKey, parse_public_key
from doorward.rego.golang import urls
from doorward.rego.values import Key, Value

__all__ = ["certificate_object", "request_object"]

Object = dict[Key, Value]

_NAME_FIELDS: Final[dict[Oid, str]] = {
    (2, 5, 4, 3): "CommonName",
    (2, 5, 4, 5): "SerialNumber",
    (2, 5, 4, 6): "Country",
    (2, 5, 4, 7): "Locality",
    (2, 5, 4, 8): "Province",
    (2, 5, 4, 9): "StreetAddress",
    (2, 5, 4, 10): "Organization",
    (2, 5, 4, 11): "OrganizationalUnit",
    (2, 5, 4, 17): "PostalCode",
}
_ONE_OF: Final = frozenset({"CommonName", "SerialNumber"})


def _base64(octets: bytes) -> str:
    return b64encode(octets).decode()


def _or_null(items: list[Value]) -> Value:
    return items or None


def certificate_object(certificate: Certificate, *, uri_strings: bool = True) -> Object:
    """Return the object that OPA shows for a certificate: Go's `x509.Certificate` as JSON, with
    null for absent lists and 0 for absent numbers. `URIStrings`, the URIs as texts, is added only
    if `uri_strings` (the default). Nothing is verified.
    """
    names, policies = certificate.names, certificate.policies
    limits: dict[str, int | None] = {
        "InhibitAnyPolicy": certificate.inhibit_any_policy,
        "InhibitPolicyMapping": certificate.inhibit_policy_mapping,
        "RequireExplicitPolicy": certificate.require_explicit_policy,
    }
    subject_key, authority_key = certificate.subject_key, certificate.authority_key
    fields: Object = {
        **_signed_fields(certificate.raw, certificate.key, certificate.subject),
        "RawSignatureAlgorithm": _base64(certificate.algorithm_raw),
        "Signature": _base64(certificate.signature),
        "SignatureAlgorithm": certificate.algorithm,
        "RawTBSCertificate": _base64(certificate.signed),
        "RawIssuer": _base64(certificate.issuer.raw),
        "Version": certificate.version,
        "SerialNumber": certificate.serial,
        "Issuer": _name(certificate.issuer),
        "NotBefore": _time(certificate.not_before),
        "NotAfter": _time(certificate.not_after),
        "KeyUsage": certificate.key_usage,
        "Extensions": _or_null([_extension(each) for each in certificate.extensions]),
        "ExtraExtensions": None,
        "UnhandledCriticalExtensions": _or_null([list(oid) for oid in certificate.unhandled]),
        "ExtKeyUsage": _or_null(list(certificate.purposes)),
        "UnknownExtKeyUsage": _or_null([list(oid) for oid in certificate.unknown_purposes]),
        "BasicConstraintsValid": certificate.basic_constraints,
        "IsCA": certificate.is_ca,
        "MaxPathLen": certificate.max_path,
        "MaxPathLenZero": certificate.basic_constraints and certificate.max_path == 0,
        "SubjectKeyId": None if subject_key is None else _base64(subject_key),
        "AuthorityKeyId": None if authority_key is None else _base64(authority_key),
        "OCSPServer": _or_null(list(certificate.ocsp_servers)),
        "IssuingCertificateURL": _or_null(list(certificate.issuer_urls)),
        **_names_object(names),
        "PermittedDNSDomainsCritical": certificate.constraints_critical,
        **_constraints_object("Permitted", certificate.permitted),
        **_constraints_object("Excluded", certificate.excluded),
        "CRLDistributionPoints": _or_null(list(certificate.distribution_points)),
        "PolicyIdentifiers": None if policies is None else _small_identifiers(policies),
        "Policies": _or_null([_oid_text(oid) for oid in policies or ()]),
        "PolicyMappings": _or_null(
            [
                {"IssuerDomainPolicy": _oid_text(issuer), "SubjectDomainPolicy": _oid_text(subject)}
                for issuer, subject in certificate.policy_mappings
            ]
        ),
        **{name: limit or 0 for name, limit in limits.items()},
        **{f"{name}Zero": limit == 0 for name, limit in limits.items()},
    }
    if uri_strings:
        fields["URIStrings"] = _or_null([str(urls.read_url(uri)) for uri in names.uris])
    return fields


def _small_identifiers(policies: list[Oid]) -> Value:
    """The policies whose numbers all have at most 31 bits, as lists: Go's older type of them."""
    return [list(oid) for oid in policies if max(oid) < 1 << 31]


def _oid_text(oid: Oid) -> str:
    return ".".join(map(str, oid))


def _extension(extension: Extension) -> Object:
    return {
        "Id": list(extension.oid),
        "Critical": extension.critical,
        "Value": _base64(extension.value),
    }


def _time(moment: datetime) -> str:
    """Return a time with a zone as RFC 3339, in whole seconds and in its own zone; `Z` for an
    offset of 0.
    """
    text = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    offset = moment.utcoffset() or timedelta()
    if not offset:
        return f"{text}Z"
    minutes = abs(offset) // timedelta(minutes=1)
    sign = "-" if offset < timedelta() else "+"
    return f"{text}{sign}{minutes // 60:02}:{minutes % 60:02}"


def _signed_fields(raw: bytes, key: PublicKey, subject: Name) -> Object:
    """The fields that certificates and certificate requests have in common."""
    return {
        "Raw": _base64(raw),
        "RawSubjectPublicKeyInfo": _base64(key.raw),
        "RawSubject": _base64(subject.raw),
        "PublicKeyAlgorithm": key.algorithm,
        "PublicKey": key.value,
        "Subject": _name(subject),
    }


def _name(name: Name) -> Object:
    """The object of a distinguished name with the fields of Go's `pkix.Name`: of an attribute that
    may occur once the last value, of others a list or null; `Names` holds all attributes in order.
    """
    fields: Object = {
        known: "" if known in _ONE_OF else None for known in sorted(_NAME_FIELDS.values())
    }
    fields["ExtraNames"] = None
    for oid, text in name.attributes:
        known = _NAME_FIELDS.get(oid, "")
        if known in _ONE_OF:
            fields[known] = text
        elif known:
            before = fields[known]
            fields[known] = [*(before if isinstance(before, list) else []), text]
    names: list[Value] = [{"Type": list(oid), "Value": text} for oid, text in name.attributes]
    fields["Names"] = _or_null(names)
    return fields


def _names_object(names: Names) -> Object:
    """Return the alternative names as the fields of Go's certificate (`DNSNames`, `EmailAddresses`,
    `IPAddresses`, `URIs`); null for kinds without a name.
    """
    return {
        "DNSNames": _or_null(list(names.dns)),
        "EmailAddresses": _or_null(list(names.emails)),
        "IPAddresses": _or_null([_address(octets) for octets in names.addresses]),
        "URIs": _or_null([_uri(uri) for uri in names.uris]),
    }


def _address(octets: bytes) -> str:
    """Return the text of an IP address of 4 or 16 bytes (ValueError otherwise); an IPv4 address
    mapped into IPv6 is written as IPv4.
    """
    address = ip_address(octets)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _uri(uri: str) -> Object:
    """The object of a URI with the fields of Go's `url.URL`."""
    url = urls.read_url(uri)
    return {
        "Scheme": url.scheme,
        "Opaque": url.opaque,
        "User": None if url.user is None else {},
        "Host": url.host,
        "Path": url.path,
        "RawPath": url.raw_path,
        "OmitHost": url.omit_host,
        "ForceQuery": url.force_query,
        "RawQuery": url.raw_query,
        "Fragment": url.fragment,
        "RawFragment": url.raw_fragment,
    }


def _constraints_object(prefix: str, names: Names) -> Object:
    """Return the name constraints `names` as fields of Go's certificate, whose names begin with
    `prefix`, "Permitted" or "Excluded": DNS domains, mail addresses, IP ranges and URI domains,
    null for none.
    """
    ranges: list[Value] = []
    for octets in names.addresses:
        half = len(octets) // 2
        ranges.append({"IP": _address(octets[:half]), "Mask": _base64(octets[half:])})
    return {
        f"{prefix}DNSDomains": _or_null(list(names.dns)),
        f"{prefix}EmailAddresses": _or_null(list(names.emails)),
        f"{prefix}IPRanges": _or_null(ranges),
        f"{prefix}URIDomains": _or_null(list(names.uris)),
    }


_EXTENSION_REQUEST: Final = (1, 2, 840, 113549, 1, 9, 14)


def request_object(octets: bytes) -> Object:
    """Return the object that OPA shows for a certificate request in DER, Go's
    x509.CertificateRequest as JSON; of its attributes only requested extensions are in it, and
    the signature is not verified. ValueError, with Go's text, if it is malformed.
    """
    fault = "tags don't match"
    request = read(octets)
    if request.tag != SEQUENCE:
        raise ValueError(fault)
    outer = Reader(request.content)
    signed = outer.element(SEQUENCE, fault)
    algorithm = outer.element(SEQUENCE, fault)
    signature = outer.bits(fault)
    inner = Reader(signed.content)
    version = inner.small_integer(fault)
    subject = parse_name(inner.element(SEQUENCE, fault))
    key = parse_public_key(inner.element(SEQUENCE, fault))
    parts = inner.element(0xA0, fault).children()
    extensions = _requested_extensions(parts)
    names = Names()
    for extension in extensions:
        if extension.oid == SUBJECT_ALTERNATIVE_NAME:
            add_names(names, extension.value)
    return {
        **_signed_fields(request.raw, key, subject),
        "RawSignatureAlgorithm": _base64(algorithm.raw),
        "Signature": _base64(right_aligned(*signature)),
        "SignatureAlgorithm": signature_algorithm(*parse_algorithm(Reader(algorithm.content))),
        "RawTBSCertificateRequest": _base64(signed.raw),
        "Version": version,
        "Attributes": _or_null([each for part in parts if (each := _attribute(part)) is not None]),
        "Extensions": _or_null([_extension(extension) for extension in extensions]),
        "ExtraExtensions": None,
        **_names_object(names),
    }


def _requested_extensions(attributes: list[Element]) -> list[Extension]:
    """The extensions that the attributes of a request ask for: those of the first value of each
    request for extensions. Attributes that cannot be read are passed over; ValueError for a
    malformed extension, and for one that occurs twice.
    """
    extensions: list[Extension] = []
    for attribute in attributes:
        try:
            oid, values = _parts_of(attribute)
        except ValueError:
            continue
        if oid != _EXTENSION_REQUEST or values.is_empty:
            continue
        first = values.inside(SEQUENCE, "tags don't match")
        while not first.is_empty:
            extension = parse_extension(first.inside(SEQUENCE, "tags don't match"))
            if any(extension.oid == each.oid for each in extensions):
                raise ValueError("certificate request contains duplicate requested extensions")
            extensions.append(extension)
    return extensions


def _parts_of(attribute: Element) -> tuple[Oid, Reader]:
    """The type of an attribute, and a reader of its values; ValueError if it is malformed."""
    if attribute.tag != SEQUENCE:
        raise ValueError("an attribute must be a sequence")
    reader = Reader(attribute.content)
    return reader.oid(""), reader.inside(SET, "")


def _attribute(attribute: Element) -> Object | None:
    """Return the object of an attribute of a certificate request whose values are lists of types
    and values; None for one of another form.
    """
    try:
        oid, values = _parts_of(attribute)
        lists: list[Value] = []
        while not values.is_empty:
            items = values.inside(SEQUENCE, "")
            pairs: list[Value] = []
            while not items.is_empty:
                pair = items.inside(SEQUENCE, "")
                kind: Value = [*pair.oid("")]
                pairs.append({"Type": kind, "Value": _plain_value(pair.any(""))})
            lists.append(pairs)
    except ValueError:
        return None
    return {"Type": list(oid), "Value": lists}


def _plain_value(element: Element) -> Value:
    """The value of an element as Go reads one of any type: bytes as base64; null for a structure.
    ValueError if it is malformed.
    """
    reader = Reader(element.raw)
    if element.tag == BOOLEAN:
        return reader.boolean("")
    if element.tag == INTEGER:
        return reader.small_integer("")
    if element.tag == OBJECT_IDENTIFIER:
        return [*reader.oid("")]
    if element.tag == OCTET_STRING:
        return _base64(element.content)
    return text_of(element) if element.tag in STRINGS else None
