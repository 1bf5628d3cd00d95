"""The imports of a module are all found, though most modules are not parsed."""

from __future__ import annotations

from pathlib import Path

from support.imports import foreign_imports
from support.rows import each_row


@each_row(
    ("text", "packages"),
    [
        ("import os", {"os"}),
        ("import os.path as x, a.b", {"os", "a"}),
        ("from a.b import c", {"a"}),
        ("from a . b import c", {"a"}),
        ("from a \\\n    import b", {"a"}),
        ("from a import (\n    b,\n    c,\n)", {"a"}),
        ("from . import a\nfrom .b import c", set()),
        ("x = 1; import a", {"a"}),
        ("if x: import a", {"a"}),
        ("def f():\n  try:\n    import a\n  except E:\n    from b import c\n  finally:\n    import d", {"a", "b", "d"}),
        ("match x:\n  case 1:\n    import a", {"a"}),
        ("class A:\n  async def f():\n    with x:\n      import a", {"a"}),
        ("for x in y:\n  import a\nelse:\n  import b", {"a", "b"}),
        ('"""Keys from a file; import them."""\ntext = "import b"  # import c', set()),
        ("", set()),
    ],
)
def test_every_import_is_found(tmp_path: Path, text: str, packages: set[str]) -> None:
    module = tmp_path / "module.py"
    module.write_text(text)
    assert foreign_imports(module, set()) == packages
    assert foreign_imports(module, {"a"}) == packages - {"a"}
    assert foreign_imports(module, packages) == set()
