"""Every shape in the package's signatures is checked while the tests run."""

from jaxtyping import install_import_hook

install_import_hook("vit_tutorial", "beartype.beartype")
