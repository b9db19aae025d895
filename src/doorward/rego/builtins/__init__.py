"""What policies call: the registry, and one module per category of OPA's reference.

A category is imported here by name; nothing is found by scanning.
"""

from __future__ import annotations

from doorward.rego.builtins import (
    aggregates as aggregates,
)
from doorward.rego.builtins import (
    arrays as arrays,
)
from doorward.rego.builtins import (
    aws as aws,
)
from doorward.rego.builtins import (
    bits as bits,
)
from doorward.rego.builtins import (
    certificates as certificates,
)
from doorward.rego.builtins import (
    comparison as comparison,
)
from doorward.rego.builtins import (
    conversions as conversions,
)
from doorward.rego.builtins import (
    crypto as crypto,
)
from doorward.rego.builtins import (
    encoding as encoding,
)
from doorward.rego.builtins import (
    globs as globs,
)
from doorward.rego.builtins import (
    graphql as graphql,
)
from doorward.rego.builtins import (
    graphs as graphs,
)
from doorward.rego.builtins import (
    http as http,
)
from doorward.rego.builtins import (
    internal as internal,
)
from doorward.rego.builtins import (
    json_paths as json_paths,
)
from doorward.rego.builtins import (
    net as net,
)
from doorward.rego.builtins import (
    numbers as numbers,
)
from doorward.rego.builtins import (
    objects as objects,
)
from doorward.rego.builtins import (
    reflection as reflection,
)
from doorward.rego.builtins import (
    regex as regex,
)
from doorward.rego.builtins import (
    schema as schema,
)
from doorward.rego.builtins import (
    semver as semver,
)
from doorward.rego.builtins import (
    sets as sets,
)
from doorward.rego.builtins import (
    string_templates as string_templates,
)
from doorward.rego.builtins import (
    strings as strings,
)
from doorward.rego.builtins import (
    time as time,
)
from doorward.rego.builtins import (
    tokens as tokens,
)
from doorward.rego.builtins import (
    types as types,
)
from doorward.rego.builtins import (
    units as units,
)
from doorward.rego.builtins import (
    uuid as uuid,
)
from doorward.rego.builtins.context import Context, Environment
from doorward.rego.builtins.registry import REGISTRY, Builtin, Registry, builtin

__all__ = ["REGISTRY", "Builtin", "Context", "Environment", "Registry", "builtin"]
