"""The C compiler of this computer and the disk cache of what it built."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from saltus.compile.pieces import cut, shared_out
from saltus.compile.progress import compiling
from saltus.errors import BadValue, NoCompiler, SaltusError

FLAGS = ("-std=c99", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off")
"""Flags of every build. NaN and infinity keep their meaning: the integrators look for them. Products and
sums stay apart, so that native code gives the virtual machine's numbers to the last bit."""

LONG, HUGE = 300_000, 8_000_000  # characters of C, 24 per instruction
"""How much is optimised, since a compiler's time grows faster than a function does. Up to LONG all of it; from there
on functions are cut into pieces first, and beyond HUGE nothing is optimised. Measured with gcc 12 on a flow of
0.5 MB, seconds of the processor and time of one evaluation in a run: whole at -O2 9.6 s and 1.8 us, in pieces of 500
statements at -O2 5.8 s and 2.3 us, in pieces of 150 at LIGHT 3.0 s and 2.35 us. Half of the time goes into the
allocation of registers, which sees little of a function at once. A flow of 1.8 MB takes 8 s in such pieces, and its
evaluations 15 us; at -O0 they take eight times as long. The virtual machine takes 5 ns per instruction."""

SHARED = 60_000  # characters from which on a source is shared out among the processors

LIGHT = ("-O1", "-ftree-vectorize", "-fexpensive-optimizations", "-fschedule-insns")
"""Level of code without loops, for which -O2 has little more: the two flows of BOLT take 1.3 instead of 2.0 s of the
processor to compile, and a run takes as long, within 2 %. The integrator around a flow has loops over vectors. Of the
rest of -O2 the last two do all, the first of which gcc needs to fuse products: the flow of four feet takes 2.3 s to
compile with them and 2.2 s without, and its evaluations 2.4 instead of 2.8 us."""

PLAIN = ("-O1",)
"""Level of code in blocks that may be left out, where LIGHT gains nothing: four feet take 2.6 s to compile and not
4.7 s, and a run takes as long."""

_DIGEST = hashlib.sha256().digest_size
_PROBE = "double saltus_probe(double x) { return 2.0 * x; }\n"


PATIENCE = 300.0  # s, for one run of the compiler; SALTUS_COMPILE_SECONDS changes it
_PROBE_PATIENCE = 30.0  # s, for a source of one line

_hung: set[str] = set()  # compilers that once took longer than that, and are not asked again by this process
_broken: dict[str, str] = {}  # compilers that were found and did not build that source, and why


class CompileError(SaltusError):
    """No library came out: the compiler refused a source, hung, or found no room on the disk.

    Carries the command and the end of what it printed.
    """


@dataclass(frozen=True)
class Compiler:
    """A C compiler that was seen to build a shared library on this computer."""

    path: str
    version: str
    arguments: tuple[str, ...] = ()  # what CC holds behind the program, and flags for this very CPU


def find_compiler() -> Compiler | None:
    """Return the C compiler, or None if there is none that works.

    Looks at `SALTUS_CC` ("none" hides every compiler), then `CC`, then cc, gcc and clang on the path.
    """
    environment = os.environ
    return _find(environment.get("SALTUS_CC", ""), environment.get("CC", ""), environment.get("PATH", ""))


@functools.cache
def _find(wish: str, habit: str, path: str) -> Compiler | None:
    if wish.strip().lower() == "none":
        return None
    if wish.strip():
        compiler = _examine(wish)
        if compiler is None:
            raise NoCompiler(
                f"SALTUS_CC is {wish!r}, which cannot build a shared library. "
                "Set it to a working C compiler, to 'none' for none, or unset it",
                command=wish,
            )
        return compiler
    candidates = (_examine(command) for command in (habit, "cc", "gcc", "clang") if command.strip())
    return next((compiler for compiler in candidates if compiler), None)


def broken_compilers() -> list[str]:
    """A note for a run that has to do without a compiler though some were found."""
    found = "; ".join(f"{path}: {why}" for path, why in _broken.items())
    return [
        f"no C compiler that was found can build a library ({found}), so nothing is compiled and runs take tens of "
        "times as long: mend it, set SALTUS_CC to one that works, or to 'none' to be told no more"
    ][: len(found)]


def _examine(command: str) -> Compiler | None:
    """Return the compiler a command line names if it builds and loads a small library."""
    program, *arguments = shlex.split(command)
    path = shutil.which(program)
    if path is None or path in _hung:
        return None
    try:
        said = subprocess.run([path, *arguments, "--version"], capture_output=True, text=True, timeout=30)
    except OSError as error:
        _broken[path] = str(error)
        return None
    except subprocess.TimeoutExpired:
        _hung.add(path)
        _broken[path] = "did not answer within 30 s"
        return None
    version = (said.stdout or said.stderr).partition("\n")[0].strip()
    for tuning in ("-march=native", "-mcpu=native", ""):
        compiler = Compiler(path, version, (*arguments, *tuning.split()))
        try:
            _build(compiler, _PROBE, ("-O1",), None, _PROBE_PATIENCE)
        except CompileError as error:
            if error.data["full"]:  # that is not the compiler's fault: builds will say so where notes are read
                return Compiler(path, version, tuple(arguments))
            _broken[path] = str(error).strip().splitlines()[-1]
            if path in _hung:
                return None
            continue
        return compiler
    return None


def cache_dir() -> Path:
    """Return the directory of built libraries: `$SALTUS_CACHE_DIR`, or `saltus` in the user's cache.

    Libraries in it are executed, so a directory others can write to is refused. If it cannot be
    written to, a private temporary directory takes its place until the process ends.
    """
    wish = os.environ.get("SALTUS_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(wish).expanduser() if wish else Path(base).expanduser() / "saltus"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(path, os.W_OK | os.X_OK)
    except OSError:
        usable = False
    if not usable:
        return _temporary_cache(str(path))
    about = path.stat()
    if _of_others(about):
        raise BadValue(
            f"the cache directory {path} (owner {about.st_uid}, mode {about.st_mode & 0o777:o}) can be "
            f"written by others, and its files are executed. Run `chmod go-w {path}` if it is yours (files "
            "that are not will be built anew), or set SALTUS_CACHE_DIR to a private directory",
            path=str(path),
            owner=about.st_uid,
            mode=about.st_mode & 0o777,
        )
    return path


@functools.cache
def _temporary_cache(refused: str) -> Path:
    path = Path(tempfile.mkdtemp(prefix="saltus-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    warnings.warn(
        f"cannot write to the cache directory {refused}: building in {path}, removed at exit. "
        "Set SALTUS_CACHE_DIR to a writable directory to keep what is built",
        RuntimeWarning,
        stacklevel=3,
    )
    return path


def build(source: str, flags: Sequence[str] = (), name: str = "C code", level: tuple[str, ...] = ("-O2",)) -> Path:
    """Return the shared library of a C source, from the cache if it was built before.

    `flags` are added to `FLAGS` and to the `level`, which is another one for long sources. `name` is what a listener of
    `on_progress` reads. Raises CompileError if nothing comes out, after `PATIENCE` at the latest.
    """
    compiler = find_compiler()
    if compiler is None:
        raise NoCompiler(
            "no C compiler found. Install one (gcc or clang), name it in SALTUS_CC, "
            "or ask for the virtual machine with native=False",
            looked_for=["SALTUS_CC", "CC", "cc", "gcc", "clang"],
        )
    if left_as_it_is(source):
        source, level = cut(source), ("-O0",)
    elif len(source) > LONG:
        source, level = cut(source), level if level == PLAIN else LIGHT
    units = 1
    if len(source) > SHARED:
        source, units = shared_out(source, len(os.sched_getaffinity(0)))
    return _build(compiler, source, (*level, *flags), name, _patience(), units)


def left_as_it_is(source: str) -> bool:
    """Whether a source is so long that it is compiled without optimisation."""
    return len(source) > HUGE


def _patience() -> float:
    wish = os.environ.get("SALTUS_COMPILE_SECONDS", "")
    if not wish:
        return PATIENCE
    try:
        seconds = float(wish)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise BadValue(f"SALTUS_COMPILE_SECONDS is {wish!r}; give a number of seconds above zero", given=wish)
    return seconds


def _build(
    compiler: Compiler, source: str, flags: tuple[str, ...], name: str | None, patience: float, units: int = 1
) -> Path:
    options = (*compiler.arguments, *FLAGS, *flags)
    recipe = "\0".join((source, compiler.path, compiler.version, *options, _cpu()))
    path = cache_dir() / (hashlib.sha256(recipe.encode()).hexdigest() + ".so")
    if _sound(path):
        return path
    if compiler.path in _hung:
        raise _error(compiler, f"{compiler.path} hung before in this process and is not asked again")
    with contextlib.nullcontext(lambda: None) if name is None else compiling(name, source.count(";")) as tell:
        _compile(compiler, source, options, path, tell, patience, units)
    if not _sound(path):
        raise _error(
            compiler,
            f"{compiler.path} built {path}, and it cannot be loaded. If {path.parent} lies on a file "
            "system mounted noexec, set SALTUS_CACHE_DIR to a directory on another one",
        )
    return path


def _error(compiler: Compiler, text: str, command: str = "", output: str = "", full: bool = False) -> CompileError:
    return CompileError(text, command=command or compiler.path, output=output, full=full)


def _compile(
    compiler: Compiler,
    source: str,
    options: tuple[str, ...],
    path: Path,
    tell: Callable[[], None],
    patience: float,
    units: int,
) -> None:
    """Compile into a file of our own and rename it, so that no reader ever sees half a library."""
    command, long = [compiler.path, *options, "-x", "c", "-", "-lm", "-o"], f"{len(source)} characters of C"
    part: Path | None = None
    objects: list[str] = []
    try:
        handle, name = tempfile.mkstemp(prefix=path.stem[:16], suffix=".tmp", dir=path.parent)
        os.close(handle)
        part = Path(name)
        if units > 1:
            objects = [f"{name}{k}.o" for k in range(units)]
            code, printed = _at_once([compiler.path, *options], objects, source, tell, patience)
            command, source = [compiler.path, *options, *objects, "-lm", "-o"], ""
        if units == 1 or code == 0:
            code, printed = _asked([*command, name], source, tell, patience)
        if code is None:
            _hung.add(compiler.path)
            raise _error(
                compiler,
                f"{compiler.path} was stopped after {patience:g} s with {long}. "
                "Set SALTUS_COMPILE_SECONDS if it needs longer",
                shlex.join([*command, name]),
            )
        if code:
            end = f"signal {-code}" if code < 0 else f"code {code}"
            said = printed.strip() or f"ended with {end}, without a word"
            tail = "\n".join(said.splitlines()[-15:])
            raise _error(
                compiler,
                f"{compiler.path} could not build {long}:\n{tail}",
                shlex.join([*command, name]),
                tail,
                full="No space left" in printed,
            )
        content = part.read_bytes()
        # The loader ignores what follows the library; a digest there tells a whole file from a torn one.
        part.write_bytes(content + _digest(path, content))
        part.chmod(0o700)
        os.replace(part, path)
    except OSError as error:
        raise _error(
            compiler,
            f"cannot write a library to {path.parent}: {error.strerror or error}. Make room there, or set "
            "SALTUS_CACHE_DIR to another directory",
            full=True,
        ) from error
    finally:
        for made in [] if part is None else [part, *map(Path, objects)]:
            made.unlink(missing_ok=True)


def _at_once(
    command: list[str], objects: list[str], source: str, tell: Callable[[], None], patience: float
) -> tuple[int | None, str]:
    """Compile every share of a source in a process of its own; return the first bad code, or 0, and its words."""
    plain = [word for word in command if word != "-shared"]

    def one(k: int) -> tuple[int | None, str]:
        own = [f"-DSALTUS_UNIT={k}", *["-DCASADI_SYMBOL_EXPORT=static"] * (k > 0)]  # what is exported is so once
        unit = [*plain, *own, "-c", "-x", "c", "-", "-o", objects[k]]
        return _asked(unit, source, tell if k == 0 else lambda: None, patience)

    with ThreadPoolExecutor(len(objects)) as pool:
        answers = list(pool.map(one, range(len(objects))))
    return next((answer for answer in answers if answer[0] != 0), answers[0])


def _asked(command: list[str], source: str, tell: Callable[[], None], patience: float) -> tuple[int | None, str]:
    """Run the compiler, telling every second; return its code (None: it was stopped) and what it printed.

    It has a session of its own, so that the processes it starts in turn can be ended with it.
    """
    pipe, deadline = subprocess.PIPE, time.monotonic() + patience
    work = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    given: str | None = source
    try:
        while True:
            left = deadline - time.monotonic()
            try:
                _, printed = work.communicate(given, timeout=min(1.0, max(left, 0.01)))
            except subprocess.TimeoutExpired:
                given = None  # communicate goes on with the rest of it
                if left <= 0:
                    return None, ""
                tell()
            else:
                return work.returncode, printed
    finally:
        if work.poll() is None:  # also after Ctrl-C, which does not reach another session
            os.killpg(work.pid, signal.SIGKILL)
            work.communicate()


def _digest(path: Path, content: bytes) -> bytes:
    """What stands behind a library: made of its content and its name, so that no other can take its place."""
    return hashlib.sha256(path.stem.encode() + content).digest()


def _sound(path: Path) -> bool:
    """Whether a cached library is ours, is whole, belongs to its name, and loads.

    Whoever could once write to the directory may have left a file or a link there; and loading a torn library can
    end the process. In such cases it is built anew.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or _of_others(about):
                return False
            content = file.read()
    except OSError:
        return False
    if _digest(path, content[:-_DIGEST]) != content[-_DIGEST:]:
        return False
    try:
        ctypes.CDLL(str(path))
    except OSError:
        return False
    return True


def _of_others(about: os.stat_result) -> bool:
    """Whether a file or directory belongs to somebody else, or others may write to it."""
    return about.st_uid != os.getuid() or bool(about.st_mode & 0o022)


@functools.cache
def _cpu() -> str:
    """What -march=native depends on: libraries must not travel to another CPU in a shared home directory."""
    names = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU part", "CPU implementer")
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        first = platform.processor()
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in names]
    return "\n".join((platform.system(), platform.machine(), *(lines or [first])))
