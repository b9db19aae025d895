"""Python functions under construction; what a Rego expression means is not known here."""
