"""The declared keys of the configuration -> docs/configuration.md, or with `--check` whether the
page is current.

The page is made from the declarations alone: nobody writes it by hand.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

from doorward.config.configuration import Config
from doorward.config.schema import Option, options_of, walk
from doorward.server.sidecar_options import plugin_sections

PAGE = Path(__file__).resolve().parent.parent / "docs/configuration.md"
HEAD = """# Configuration file

Made by `make docs` from the declarations that the reader uses; do not edit. `doorward run
--config-file FILE` reads YAML or JSON with OPA's keys; `ours` marks keys that OPA does not have. An
unknown key is a warning with its name and line. A value of the wrong type, or out of its bounds, is
an error with its name and line, and the server does not start.

```sh
doorward config check doorward.yaml
doorward config schema > doorward.schema.json
```

The first reads a file as the server does and says what is wrong with it. The second prints a JSON
Schema: with `# yaml-language-server: $schema=doorward.schema.json` as its first line, an editor
completes and checks the file.

`${NAME}` in a value stands for an environment variable. `--set KEY.KEY=VALUE` overrides the file,
`--set-file KEY=FILE` by the content of another: [overrides](run.md#configuration). On SIGHUP, and
when discovery brings a new configuration, changes of these keys are followed, and of others at the
next start: {reloadable}.

A key with a dot stands in an object: `decoding.max_length` of `server` is

```yaml
server:
  decoding:
    max_length: 1000000
```
"""


def value_text(option: Option) -> str:
    """The default as the file would have it; a dash where there is none."""
    default = option.default
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float) and math.isfinite(default):
        return f"{default:g}"
    if isinstance(default, int):
        is_mode = option.kind.text.startswith("permission")
        return f'"{default:o}"' if is_mode else str(default)
    if isinstance(default, str) and default:
        return f"`{default}`"
    if isinstance(default, tuple) and default and all(type(each) is float for each in default):
        return f"{len(default)} from {default[0]:g} to {default[-1]:g}"
    return "–"


def rows(section: type) -> Iterator[str]:
    """One row for each key of a section that has a text of its own."""
    for path, option in walk(section):
        if option.text:
            text = option.text if option.is_opa else f"ours: {option.text}"
            cells = [f"`{path}`", option.kind.text, value_text(option), text]
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def table(lines: list[str]) -> str:
    """A table of rows."""
    return "| key | value | default | |\n|---|---|---|---|\n" + "".join(lines)


def page() -> str:
    """The whole page."""
    options = list(options_of(Config).values())
    simple = [each for each in options if each.kind.below is None and each.key != "plugins"]
    reloadable = [f"`{each.key}`" for each in options if each.is_reloadable]
    named = ", ".join(reloadable[:-1]) + " and " + reloadable[-1]
    keys = {each.key for each in simple}
    top = [row for row in rows(Config) if row.split("`")[1] in keys]
    parts = [HEAD.replace("{reloadable}", named), "\n## Keys at the top\n\n", table(top)]
    for each in options:
        if each.kind.below is None:
            continue
        whole = f"{each.key}.NAME" if each.kind.is_named else each.key
        note = f"{each.text[0].upper()}{each.text[1:]}.\n\n" if each.text else ""
        parts.append(f"\n## {whole}\n\n{note}{table([*rows(each.kind.below)])}")
    for name, section in plugin_sections().items():
        parts.append(f"\n## plugins.{name}\n\n{table([*rows(section)])}")
    return "".join(parts)


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
        return 0
    if PAGE.is_file() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE.name} is not what is declared: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
