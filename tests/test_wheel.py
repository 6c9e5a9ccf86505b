"""The wheel installs outside the source tree and works there; its licence and metadata are in it."""

import email
import zipfile

import pytest

import wheel_smoke as wheels
from saltus import __version__


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77", reason="the test extra installs setuptools")
    return wheels.build(tmp_path_factory.mktemp("wheel"))


def test_works_outside_the_tree(built):
    folder = built.parent
    said = wheels.try_it(wheels.install(built, folder / "environment", borrowed=True), folder / "elsewhere")
    assert said["program"].startswith(str(folder / "environment"))
    assert said["no compiler"].split()[-1] == "scipy"
    assert said["version"].strip() == f"saltus {__version__}"
    assert "hopper-orbit" in said["studies"]
    assert "bolt" in said["zoo"]


def test_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(archive.read(metadata))
    assert {n.split("/")[0] for n in names} == {"saltus", metadata.split("/")[0]}
    sources = {p.relative_to(wheels.ROOT / "src").as_posix() for p in (wheels.ROOT / "src" / "saltus").rglob("*.py")}
    assert sources <= set(names)
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert fields["License-Expression"] == "BSD-3-Clause"
    assert fields["Version"] == __version__
    assert any(line.startswith("casadi") for line in fields.get_all("Requires-Dist"))
