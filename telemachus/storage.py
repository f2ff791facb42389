"""Static files with hashed names, ES module imports included."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleManifestStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Rewrites `import` statements of modules too, so that a changed module has a new address."""

    support_js_module_import_aggregation = True
