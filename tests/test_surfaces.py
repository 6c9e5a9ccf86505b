"""What links look like: meshes from files beside a model, where MuJoCo has them, in figures and in the studio."""

import struct
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.patches import Polygon
from scipy.spatial import ConvexHull

import saltus as sl
from saltus.files.xml import mesh
from saltus.model.geometry import skeleton
from saltus.studio.scene import Body, Placed
from saltus.view.placing import seen

CORNERS = np.array([[x, y, z] for x in (0.0, 0.1) for y in (0.0, 0.2) for z in (0.0, 0.4)])
FACES = np.array([int(c) for c in "013032467475045051237276026064157173"]).reshape(-1, 3)
MODEL = """<mujoco><asset>
    <mesh name="box" file="{file}" scale="1 -2 0.5" refpos="0.01 0.02 0.03" refquat="0.6 0.8 0 0"/></asset>
  <worldbody><body name="arm" pos="0 0 1" euler="20 0 0"><joint name="pin" axis="0 1 0"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <geom name="look" type="mesh" mesh="box" pos="0.1 0.2 0.3" euler="10 20 30" contype="0" conaffinity="0"/>
    <geom type="mesh" mesh="box" contype="1" conaffinity="1"/></body></worldbody></mujoco>"""


def stl():
    record = b"".join(struct.pack("<12fH", 0, 0, 0, *CORNERS[f].ravel(), 0) for f in FACES)
    return b"\0" * 80 + struct.pack("<I", len(FACES)) + record


@pytest.fixture
def folder(tmp_path):
    own = tmp_path / "model"
    own.mkdir()
    for at in (own, tmp_path):
        (at / "box.stl").write_bytes(stl())
    (own / "arm.xml").write_text(MODEL.format(file="box.stl"))
    return own


def volume(points, faces):
    A, B, C = (points[faces[:, k]] for k in range(3))
    return np.einsum("ij,ij->i", A, np.cross(B, C)).sum() / 6


def test_a_mesh_is_where_mujoco_has_it(folder):
    mujoco = pytest.importorskip("mujoco")
    m = sl.read(folder / "arm.xml").mechanism
    (surface,) = m.surfaces["arm"]  # the geom that touches is not drawn where there is one to be seen
    points, faces = surface.triangles()
    assert volume(points, faces) == pytest.approx(0.1 * 0.4 * 0.2)  # outside is outside, though the scale mirrors it
    state = m.assemble(pin=0.7)
    ours = np.array([state.position(m.links["arm"].at(*p)) for p in np.unique(points.round(9), axis=0)])

    model = mujoco.MjModel.from_xml_path(str(folder / "arm.xml"))
    data = mujoco.MjData(model)
    data.qpos[0] = 0.7
    mujoco.mj_forward(model, data)
    g = model.geom("look").id
    theirs = model.mesh_vert @ data.geom_xmat[g].reshape(3, 3).T + data.geom_xpos[g]
    distances = np.linalg.norm(ours[:, None] - theirs[None], axis=2)
    assert distances.min(axis=1).max() < 1e-6
    assert distances.min(axis=0).max() < 1e-6


def test_urdf_visuals_in_the_folder(folder):
    text = """<robot name="r"><link name="base"/><link name="arm"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1"/></inertial><visual><origin xyz="0 0 1" rpy="0 0 1.5707963267948966"/>
      <geometry><mesh filename="{}" scale="2 1 1"/></geometry></visual></link>
      <joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint></robot>"""
    for name in ("box.stl", "./box.stl", "package://any/box.stl", "package://meshes/box.stl"):
        (folder / "r.urdf").write_text(text.format(name))
        points, _ = sl.read(folder / "r.urdf").mechanism.surfaces["arm"][0].triangles()
        assert np.allclose(points.min(axis=0), [-0.2, 0, 1], atol=1e-7)
        assert np.allclose(points.max(axis=0), [0, 0.2, 1.4], atol=1e-7)
    for name in ("../box.stl", "package://any/../../box.stl", "/etc/passwd", "none.stl", "http://box.stl"):
        (folder / "r.urdf").write_text(text.format(name))
        model = sl.read(folder / "r.urdf")
        assert not model.mechanism.surfaces
        assert any(f"not drawn: 1 of the meshes ({name})" in note for note in model.notes)


COLLADA = """<COLLADA><asset><unit meter="0.01"/><up_axis>Y_UP</up_axis></asset>
  <library_geometries><geometry id="box"><mesh>
    <source id="places"><float_array>{places}</float_array>
      <technique_common><accessor stride="3"/></technique_common></source>
    <vertices id="corners"><input semantic="POSITION" source="#places"/></vertices>
    {faces}</mesh></geometry></library_geometries>
  <library_nodes><node id="turned"><rotate>0 0 1 90</rotate><instance_geometry url="#box"/>{more}</node></library_nodes>
  <library_visual_scenes><visual_scene><node><matrix>1 0 0 10 0 1 0 20 0 0 1 30 0 0 0 1</matrix>
    <scale>2 1 1</scale><instance_node url="#turned"/></node></visual_scene></library_visual_scenes></COLLADA>"""
QUADS = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def words(numbers):
    return " ".join(map(str, np.ravel(numbers)))


PRIMITIVES = {
    "triangles": f"<triangles><input semantic='VERTEX' offset='0'/><p>{words(FACES)}</p></triangles>",
    "polylist": "<polylist><input semantic='NORMAL' offset='0'/><input semantic='VERTEX' offset='1'/>"
    f"<vcount>{words([4] * 6)}</vcount><p>{words([(9, c) for quad in QUADS for c in quad])}</p></polylist>",
    "polygons": "<polygons><input semantic='VERTEX' offset='0'/>"
    + "".join(f"<p>{words(quad)}</p>" for quad in QUADS)
    + "</polygons>",
}


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_collada_places_its_geometry_by_its_scene(tmp_path, kind):
    """A box of 0.1 x 0.2 x 0.4 m, in centimetres, turned about z, stretched along x, and moved by (0.1, 0.2, 0.3) m."""
    path = tmp_path / "box.dae"
    path.write_text(COLLADA.format(places=words(100 * CORNERS), faces=PRIMITIVES[kind], more=""))
    points, faces = mesh.Surface(path, np.eye(3), np.zeros(3)).triangles()
    assert np.allclose(points.min(axis=0), [0.1 - 0.4, 0.2, 0.3])
    assert np.allclose(points.max(axis=0), [0.1, 0.3, 0.7])
    assert volume(points, faces) == pytest.approx(2 * 0.1 * 0.2 * 0.4)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"more": "<instance_node url='#turned'/>"},
        {"more": "<instance_geometry url='#box'/>" * 20_000},
        {"more": "<rotate>1 2</rotate>"},
        {"places": "0 0 0 1"},
        {"places": ""},
        {"faces": "<triangles><p>0 1 2</p></triangles>"},
        {"faces": "<polylist><input semantic='VERTEX' offset='0'/><vcount>5</vcount><p>0 1 2</p></polylist>"},
        {"faces": "<triangles><input semantic='VERTEX' offset='0'/><p>0 1 99</p></triangles>"},
        {"faces": f"<triangles><input semantic='VERTEX' offset='0'/><p>0 1 {10**30}</p></triangles>"},
    ],
)
def test_spoilt_collada_is_not_drawn(tmp_path, spoilt):
    given = {"places": words(100 * CORNERS), "faces": PRIMITIVES["triangles"], "more": ""} | spoilt
    (tmp_path / "box.dae").write_text(COLLADA.format(**given))
    assert mesh.Surface(tmp_path / "box.dae", np.eye(3), np.zeros(3)).triangles() is None


def test_sdf_visuals_in_the_folder(folder):
    text = """<sdf version="1.7"><model name="r"><link name="base"/><link name="arm"><inertial><mass>1</mass></inertial>
      <visual name="v"><pose>0 0 1 0 0 1.5707963267948966</pose><geometry><mesh><uri>{}</uri><scale>2 1 1</scale></mesh>
      </geometry></visual></link><joint name="j" type="revolute"><parent>base</parent><child>arm</child>
      <axis><xyz>0 0 1</xyz></axis></joint></model></sdf>"""
    for name in ("box.stl", "model://any/box.stl", "file://box.stl"):
        (folder / "r.sdf").write_text(text.format(name))
        points, _ = sl.read(folder / "r.sdf").mechanism.surfaces["arm"][0].triangles()
        assert np.allclose(points.min(axis=0), [-0.2, 0, 1], atol=1e-7)
        assert np.allclose(points.max(axis=0), [0, 0.2, 1.4], atol=1e-7)
    for name in ("../box.stl", "model://any/../../box.stl", "none.stl", "https://box.stl"):
        (folder / "r.sdf").write_text(text.format(name))
        assert not sl.read(folder / "r.sdf").mechanism.surfaces


def test_pictures_of_a_run_show_the_outlines_of_surfaces(folder, tmp_path):
    """In snapshots, films and the page's animation: the hull of all corners of the mesh, as SciPy finds it."""
    model = sl.read(folder / "arm.xml")
    m, run = model.mechanism, sl.simulate(model.mechanism, model.start, until=0.2)
    bones = skeleton(m)
    assert bones.solid == {"arm"}
    points, _ = m.surfaces["arm"][0].triangles()
    state = run.at(0.2)
    world = sl.trace(m, state.positions, [m.links["arm"].at(*x) for x in points])
    own = sl.trace(m, state.positions, bones.frames)
    hull = ConvexHull(seen(np.unique(world, axis=1), own)[0])
    figure = sl.view.plot_snapshots(run, times=[0.2])
    (drawn,) = [p for p in figure.axes[0].patches if isinstance(p, Polygon)]
    xy = drawn.get_xy()[:-1]
    x, y = xy.T
    assert abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2 == pytest.approx(hull.volume, rel=1e-9)
    assert len(xy) == len(hull.vertices)
    assert '"solid":[0]' in sl.view.report(run, tmp_path / "run.html", figures={}).read_text()
    sl.view.animate(run, tmp_path / "run.gif")


def test_nothing_outside_the_folder_and_nothing_huge(folder, monkeypatch):
    (folder / "arm.xml").write_text(MODEL.format(file="../box.stl"))
    assert not sl.read(folder / "arm.xml").mechanism.surfaces
    (folder / "arm.xml").write_text(MODEL.format(file="box.stl"))
    (surface,) = sl.read(folder / "arm.xml").mechanism.surfaces["arm"]
    monkeypatch.setattr(mesh, "DETAIL", 6)
    points, faces = surface.triangles()
    assert volume(points, faces) == pytest.approx(0.1 * 0.4 * 0.2)  # a box is its own hull
    monkeypatch.setattr(mesh, "DRAWN", 100)
    assert surface.triangles() is None
    monkeypatch.undo()
    (folder / "box.stl").write_bytes(b"solid nothing")
    assert surface.triangles() is None
    (folder / "box.stl").unlink()
    assert surface.triangles() is None


def test_figures_show_the_sides_that_can_be_seen(folder):
    state = sl.read(folder / "arm.xml").start
    figure = sl.view.plot_machine(state)
    (drawn,) = [c for c in figure.axes[0].collections if isinstance(c, PolyCollection)]
    assert len(drawn.get_paths()) == 6  # three sides of a box
    low, high = np.array([figure.axes[0].get_xlim(), figure.axes[0].get_ylim()]).T
    for path in drawn.get_paths():
        assert (path.vertices >= low).all()
        assert (path.vertices <= high).all()


def test_the_studio_draws_surfaces_instead_of_bars(folder):
    made = {}

    def add(name, vertices, faces, **look):
        made[name] = vertices, faces
        return SimpleNamespace()

    model = sl.read(folder / "arm.xml")
    placed = Placed(model.mechanism, model.start.params)
    body = Body(SimpleNamespace(add_mesh_simple=add), "/m", placed)
    body.build(placed.at(model.start.positions[None], model.start.params), 1.0)
    vertices, faces = made["/m/arm"]
    assert volume(vertices.astype(float), faces) == pytest.approx(0.1 * 0.4 * 0.2, rel=1e-5)
    assert "/m/arm/pins" not in made


def test_ground_that_has_no_height_on_the_way_ends_a_run():
    """In flight nothing but the gap knows of it, and that is no number from x = 0.1 m on."""
    m = sl.Mechanism("slider")
    body = m.link("body", mass=1.0, inertia=0.01)
    m.slide("p", m.ground, body, axes="xy")
    m.foot("toe", body.origin, friction=0.2)
    ground = sl.ground.Terrain(lambda x: 0.1 * sl.math.sqrt(0.1 - x))
    run = sl.simulate(m, m.assemble(p=(0.0, 0.3), rates={"p.x": 1.0, "p.y": 0.0}), until=0.5, ground=ground)
    assert run.outcome.kind == "not finite"
    assert run.t[-1] == pytest.approx(0.1, abs=1e-6)
    assert "terrain's function" in run.outcome.detail
