"""Native code and the virtual machine give the same numbers; the cache survives whatever happens to it."""

import ctypes
import errno
import multiprocessing
import os
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import casadi as ca
import numpy as np
import pytest

import saltus as sl
from saltus.compile import (
    CompileError,
    Kernel,
    build,
    c_source,
    cache_dir,
    find_compiler,
    on_progress,
    progress,
    toolchain,
)
from saltus.engines import choose
from saltus.engines.port import Flow, Request
from saltus.errors import BadValue, NoCompiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def example():
    t, x, p, m = ca.SX.sym("t"), ca.SX.sym("x", 3), ca.SX.sym("p", 0), ca.SX.sym("m", 2, 3)
    outputs = [ca.sin(x) * t, m @ ca.diag(x), ca.jacobian(ca.exp(x), x)]
    return ca.Function("example", [t, x, p, m], outputs, ["t", "x", "p", "m"], ["a", "b", "c"])


X = np.array([0.1, 0.2, 0.3])
M = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("SALTUS_CACHE_DIR", str(path))
    return path


@pytest.mark.parametrize("native", [None, False])
def test_call_gives_columns_as_vectors_and_matrices_as_rows(native):
    a, b, c = Kernel(example(), native)(2.0, X, [], M)
    np.testing.assert_allclose(a, 2 * np.sin(X), rtol=1e-15)
    np.testing.assert_array_equal(b, M @ np.diag(X))
    np.testing.assert_allclose(c, np.diag(np.exp(X)), rtol=1e-15)
    assert b.flags.c_contiguous


@needs_compiler
def test_native_and_virtual_machine_agree_to_the_last_bit():
    native, virtual = Kernel(example(), True), Kernel(example(), False)
    assert native.native
    assert not virtual.native
    for left, right in zip(native(0.7, X, [], M), virtual(0.7, X, [], M), strict=True):
        np.testing.assert_array_equal(left, right)


def test_hidden_compiler_falls_back_and_required_one_raises(monkeypatch):
    monkeypatch.setenv("SALTUS_CC", "none")
    assert find_compiler() is None
    kernel = Kernel(example())
    assert not kernel.native
    np.testing.assert_allclose(kernel(2.0, X, [], M)[0], 2 * np.sin(X), rtol=1e-15)
    with pytest.raises(NoCompiler, match="example"):
        Kernel(example(), native=True)
    with pytest.raises(NoCompiler, match="SALTUS_CC"):
        build("int x;")


def test_named_compiler_that_does_not_work_is_an_error(monkeypatch):
    monkeypatch.setenv("SALTUS_CC", "/nonexistent/cc")
    with pytest.raises(NoCompiler, match="/nonexistent/cc"):
        find_compiler()


@pytest.mark.parametrize("native", [None, False])
def test_wrong_sizes_name_function_and_argument(native):
    kernel = Kernel(example(), native)
    with pytest.raises(BadValue, match=r"'example': argument 'x' has shape \(2,\), expected \(3,\)"):
        kernel(1.0, [1, 2], [], M)
    with pytest.raises(BadValue, match="argument 'm'"):
        kernel(1.0, X, [], M.T)
    with pytest.raises(BadValue, match="argument 'x'"):
        kernel(1.0, 5.0, [], M)
    with pytest.raises(BadValue, match="takes 4 arguments"):
        kernel(1.0, X)
    with pytest.raises(BadValue, match="not an array of numbers"):
        kernel(1.0, ["a", "b", "c"], [], M)


@pytest.mark.parametrize("native", [None, False])
def test_bound_evaluates_in_place(native):
    kernel = Kernel(example(), native)
    bound = kernel.bind()
    results = list(bound.results)
    bound.args[0][:] = 3.0
    bound.args[1][:] = X
    bound.args[3][:] = M
    bound()
    for left, right, kept in zip(bound.results, kernel(3.0, X, [], M), results, strict=True):
        np.testing.assert_array_equal(left, right)
        assert left is kept
    evaluate = kernel.bind().evaluate
    evaluate()


@pytest.mark.parametrize("native", [None, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_batch_is_the_loop_over_calls(native, threads):
    kernel = Kernel(example(), native)
    random = np.random.default_rng(1)
    t, m = random.normal(size=7), random.normal(size=(7, 2, 3))
    batch = kernel.batch(t, X, [], m, threads=threads)
    for k in range(7):
        for many, one in zip(batch, kernel(t[k], X, [], m[k]), strict=True):
            np.testing.assert_array_equal(many[k], one)
    with pytest.raises(BadValue, match="different numbers of sets"):
        kernel.batch(t, random.normal(size=(6, 3)), [], m)
    with pytest.raises(BadValue, match="argument 'x'"):
        kernel.batch(t, random.normal(size=(7, 4)), [], m)


def test_batch_of_no_sets_and_of_one():
    kernel = Kernel(example())
    assert kernel.batch(np.zeros(0), X, [], M)[1].shape == (0, 2, 3)
    assert kernel.batch(1.0, X, [], M)[1].shape == (1, 2, 3)


@pytest.mark.parametrize("native", [None, False])
def test_time_and_pickle(native):
    kernel = Kernel(example(), native)
    assert kernel.time(10) > 0
    assert kernel.time(10, (1.0, X, [], M)) > 0
    copy = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(copy(1.0, X, [], M)[0], kernel(1.0, X, [], M)[0])


def test_threads_may_share_a_kernel():
    kernel = Kernel(example())
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda k: kernel(float(k), X, [], M)[0], range(200)))
    np.testing.assert_allclose(got, np.arange(200.0)[:, None] * np.sin(X), rtol=1e-15)


def test_matrix_function_of_mx_with_sparse_input():
    x = ca.MX.sym("x", ca.Sparsity.diag(2))
    kernel = Kernel(ca.Function("g", [x], [ca.mtimes(x, x)], ["x"], ["y"]))
    np.testing.assert_array_equal(kernel(np.diag([2.0, 3.0])), np.diag([4.0, 9.0]))


@needs_compiler
def test_build_is_cached_and_a_torn_file_is_rebuilt(own_cache):
    source = "int saltus_answer(void) { return 42; }\n"
    path = build(source)
    assert path.parent == own_cache
    whole = path.read_bytes()
    before = path.stat().st_mtime_ns
    assert build(source).stat().st_mtime_ns == before
    for torn in (whole[: len(whole) // 2], whole[:100], b"", whole[:200] + b"\0" * 64 + whole[264:]):
        path.unlink()
        path.write_bytes(torn)
        assert build(source).read_bytes() == whole
    assert not list(own_cache.glob("*.tmp"))


@needs_compiler
def test_flags_and_sources_have_libraries_of_their_own(own_cache):
    source = "int saltus_answer(void) { return 42; }\n"
    assert len({build(source), build(source, ["-DX"]), build(source + "\n")}) == 3


def _build_slowly(source):
    return str(build(source))


@needs_compiler
def test_two_processes_build_the_same_source_at_once(own_cache):
    source = "".join(f"double f{k}(double x) {{ return x * {k}; }}\n" for k in range(2000))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        paths = set(pool.map(_build_slowly, [source] * 4, chunksize=1))
    assert paths == {str(build(source))}
    assert not list(own_cache.glob("*.tmp"))


@needs_compiler
def test_compile_error_shows_the_compilers_words(own_cache):
    with pytest.raises(CompileError, match="undeclared") as caught:
        build("int f(void) { return nonsense; }")
    assert "nonsense" in caught.value.output
    assert not list(own_cache.glob("*.tmp"))


def test_cache_directory_is_private_and_refuses_shared_ones(own_cache):
    assert cache_dir() == own_cache
    assert own_cache.stat().st_mode & 0o777 == 0o700
    own_cache.chmod(0o777)
    with pytest.raises(BadValue, match="SALTUS_CACHE_DIR"):
        cache_dir()


def test_unwritable_cache_directory_is_replaced_with_a_warning(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SALTUS_CACHE_DIR", str(blocked / "cache"))
    with pytest.warns(RuntimeWarning, match="SALTUS_CACHE_DIR"):
        path = cache_dir()
    assert path.is_dir()
    assert path.stat().st_uid == os.getuid()
    assert cache_dir() == path


SOURCE = "int saltus_answer(void) { return 42; }\n"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Write a compiler of one's own: a shell script that gets as far as told, then does as told."""

    def write(trouble):
        real = find_compiler().path
        path = tmp_path / "cc"
        # the probe and the question for the version are answered, so that the trouble comes in earnest
        path.write_text(
            f"""#!/bin/sh
case "$*" in *--version*) echo trouble {trouble!r}; exit 0;; esac
source=$(cat)
case "$source" in *saltus_probe*) printf '%s' "$source" | {real} "$@"; exit;; esac
{trouble}
"""
        )
        path.chmod(0o700)
        monkeypatch.setenv("SALTUS_CC", str(path))
        monkeypatch.setenv("SALTUS_CACHE_DIR", str(tmp_path / "cache"))

    return write


TROUBLES = {
    "fails": ("echo 'internal compiler error' >&2; exit 4", "internal compiler error"),
    "hangs": ("sleep 600", "stopped after 0.5 s"),
    "hangs with children": ("(sleep 600) & sleep 600", "stopped after 0.5 s"),
    "fills the disk": ("echo 'cannot write: No space left on device' >&2; exit 1", "No space left"),
    "is killed": ("kill -9 $$", "ended with signal 9"),
    "builds rubbish": ('while [ "$1" != -o ]; do shift; done; echo rubbish > "$2"', "cannot be loaded"),
}


@needs_compiler
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_compiler_in_trouble_is_replaced_with_a_note(compiler, monkeypatch, trouble):
    does, says = TROUBLES[trouble]
    compiler(does)
    monkeypatch.setenv("SALTUS_COMPILE_SECONDS", "0.5")
    kernel = Kernel(example())
    with pytest.warns(RuntimeWarning, match="virtual machine"):
        got = kernel(2.0, X, [], M)
    for left, right in zip(got, Kernel(example(), False)(2.0, X, [], M), strict=True):
        np.testing.assert_array_equal(left, right)
    assert any(says in note and "'example'" in note for note in kernel.notes)
    with pytest.raises(CompileError):
        Kernel(example(), native=True)(2.0, X, [], M)
    assert not list(cache_dir().glob("*.tmp"))


@needs_compiler
def test_a_compiler_that_hung_is_not_asked_again_but_the_cache_still_serves(compiler, monkeypatch):
    compiler('case "$source" in *slow*) sleep 600;; esac; printf "%s" "$source" | ' + f'{find_compiler().path} "$@"')
    built = build(SOURCE)
    monkeypatch.setenv("SALTUS_COMPILE_SECONDS", "0.5")
    with pytest.raises(CompileError, match="SALTUS_COMPILE_SECONDS"):
        build("/* slow */" + SOURCE)
    with pytest.raises(CompileError, match="hung before"):
        build("/* another */" + SOURCE)
    assert build(SOURCE) == built


@needs_compiler
def test_a_full_disk_is_no_reason_to_lose_the_compiler(own_cache, monkeypatch):
    """Room gives out before the first library, the probe, is written."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("SALTUS_CC", "cc " + "-DFULL")  # a command of its own, so that it is examined anew
    with monkeypatch.context() as m:
        m.setattr("saltus.compile.toolchain.tempfile.mkstemp", full)
        assert find_compiler() is not None
        with pytest.raises(CompileError, match=f"{own_cache}.*No space left on device.*SALTUS_CACHE_DIR"):
            build(SOURCE)
    assert build(SOURCE).exists()


@needs_compiler
def test_the_native_engine_gives_way_with_a_note(compiler):
    compiler("exit 1")
    t, x, p = ca.SX.sym("t"), ca.SX.sym("x", 2), ca.SX.sym("p", 0)
    rhs = ca.Function("rhs", [t, x, p], [ca.vertcat(x[1], -x[0])])
    stepper = choose("native").prepare(Flow("swing", rhs, ca.Function("g", [t, x, p], [x[0] - 0.5])))
    assert stepper.engine == "scipy"
    assert "'swing' was not compiled" in stepper.notes[0]
    given = {"atol": np.full(2, 1e-9), "rtol": np.full(2, 1e-9), "armed": np.ones(1, bool)}
    asked = Request(0.0, np.array([1.0, 0.0]), np.zeros(0), 9.0, directions=np.array([-1], np.int32), **given)
    assert stepper.run(asked).breaks[-1] == pytest.approx(np.pi / 3, abs=1e-9)


@needs_compiler
def test_progress_is_told_from_the_start_to_the_end(compiler):
    compiler('sleep 1.3; printf "%s" "$source" | ' + f'{find_compiler().path} "$@"')
    heard = []
    with on_progress(heard.append):
        find_compiler()  # which is looked for with a probe of its own
        heard.clear()
        build(SOURCE, name="a leg")
        told = len(heard)
        build(SOURCE, name="a leg")
    build(SOURCE + "\n", name="nobody listens")
    assert told == len(heard)  # the second came from the cache
    assert [news.done for news in heard] == [False] * (told - 1) + [True]
    assert told >= 3
    assert heard[0].seconds < heard[1].seconds < heard[-1].seconds
    assert str(heard[0]) == "compiling a leg (1 instructions)"
    assert {(news.name, news.instructions) for news in heard} == {("a leg", 1)}


def planted(path, content):
    """What somebody else could leave in the cache: a sound library of its own under this name."""
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o700)


@needs_compiler
def test_a_library_of_another_name_is_not_taken(own_cache):
    """Renaming one of the user's own files is all it takes to swap two functions."""
    path, other = build(SOURCE), build("int saltus_answer(void) { return 43; }\n")
    planted(path, other.read_bytes())
    assert ctypes.CDLL(str(build(SOURCE))).saltus_answer() == 42


@needs_compiler
def test_writable_files_and_links_are_built_anew(own_cache, tmp_path):
    path = build(SOURCE)
    whole = path.read_bytes()
    for mode in (0o720, 0o702):
        path.chmod(mode)
        assert build(SOURCE).stat().st_mode & 0o777 == 0o700
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(whole)
    path.unlink()
    path.symlink_to(elsewhere)
    assert not build(SOURCE).is_symlink()
    path.unlink()
    os.mkfifo(path)
    assert build(SOURCE).read_bytes() == whole


@needs_compiler
@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_files_of_another_user_are_built_anew_after_the_advised_chmod(own_cache):
    path = build(SOURCE)
    os.chown(path, 12345, 12345)
    own_cache.chmod(0o777)
    with pytest.raises(BadValue, match="chmod go-w"):
        build(SOURCE)
    own_cache.chmod(0o755)
    assert build(SOURCE).stat().st_uid == 0


# ---- several compilers at once ------------------------------------------------------------------------------------


def long_function(steps=4000):
    """Two thousand lines of C with every kind of helper that CasADi writes."""
    x = ca.SX.sym("x", 3)
    y = x
    for k in range(steps // 10):
        ratio = y[0] ** 2 / (1 + y[1] ** 2)
        y = ca.vertcat(ca.sin(y[1]) + k, ca.fmax(y[2], ratio), ca.fabs(y[0] - 1.5) + ca.sign(y[2]))
    return ca.Function("long", [x], [y])


@needs_compiler
@pytest.mark.parametrize("count", [2, 3])
def test_shares_of_a_source_make_the_same_library(count, monkeypatch, tmp_path):
    """Functions cut into pieces and compiled by several processes: to the last bit what the virtual machine gives."""
    monkeypatch.setenv("SALTUS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("saltus.compile.toolchain.LONG", 1000)
    monkeypatch.setattr("saltus.compile.toolchain.SHARED", 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)))
    asked = []
    real = toolchain._asked
    monkeypatch.setattr(toolchain, "_asked", lambda command, *rest: asked.append(command) or real(command, *rest))
    kernel = Kernel(long_function(), native=True)
    virtual = Kernel(long_function(), native=False)
    np.testing.assert_array_equal(kernel(X), virtual(X))
    units = {word for command in asked for word in command if word.startswith("-DSALTUS_UNIT")}
    assert units == {f"-DSALTUS_UNIT={k}" for k in range(count)}


def test_helpers_are_seen_by_nobody_else():
    """Whatever CasADi writes beside the functions: two shares of a library have helpers of the same names."""
    A, x = ca.MX.sym("A", 3, 3), ca.MX.sym("x", 3)
    function = ca.Function("f", [A, x], [ca.mtimes(A, x), ca.norm_2(x) * ca.sign(x), ca.mtimes(A.T, A)[:, 1]])
    source = c_source([function, long_function()])
    own = [line for line in source.splitlines() if re.match(r"[a-z][\w* ]* casadi_\w+\(", line)]
    assert len(own) > 4
    assert all(line.startswith("static ") for line in own)


@needs_compiler
def test_an_error_in_a_share_is_the_compilers(monkeypatch):
    monkeypatch.setattr("saltus.compile.toolchain.SHARED", 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    parts = "".join(
        f"static int f{k}(const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int mem) {{\n"
        f"  return {word};\n}}\n"
        for k, word in enumerate(("0", "nonsense"))
    )
    with pytest.raises(CompileError, match="nonsense"):
        build("#define casadi_real double\n#define casadi_int long\n" + parts)


def test_a_terminal_is_told_of_long_compilations(monkeypatch, capsys):
    news = progress.Progress("leg", 5000, 1.5)
    progress._aloud(news)
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress._aloud(news)
    assert "compiling leg (5,000 instructions)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("does", "said"), [("exit 1", "without a word"), ("echo no licence >&2; exit 2", "no licence")]
)
def test_a_broken_compiler_on_the_path_is_told(does, said, tmp_path, monkeypatch):
    """Nobody asked for it by name, so the run goes on without, and says why it is slow."""
    for name in ("cc", "gcc", "clang"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("SALTUS_CC", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("saltus.compile.toolchain._broken", {})
    m = sl.zoo.five_bar()
    run = sl.simulate(m, m.keyframe("stand"), until=0.01)
    assert run.meta["engine"] == "scipy"
    assert run.outcome.ok
    (note,) = run.meta["notes"]
    assert f"{tmp_path}/cc" in note
    assert said in note
    assert "set SALTUS_CC" in note
