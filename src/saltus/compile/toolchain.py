"""The C compiler of this computer and the disk cache of what it built."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from saltus.compile.pieces import cut
from saltus.errors import BadValue, NoCompiler, SaltusError

FLAGS = ("-std=c99", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off")
"""Flags of every build. NaN and infinity keep their meaning: the integrators look for them. Products and
sums stay apart, so that native code gives the virtual machine's numbers to the last bit."""

LONG, HUGE = 300_000, 800_000  # characters of C, 24 an instruction
"""How much is optimised, since a compiler's time grows faster than a function does. Up to LONG all of it, at -O2; from
there on functions are cut into pieces first, and beyond HUGE nothing is optimised. Measured with gcc 12 on a flow of
57,000 instructions (1.4 MB), seconds of the processor: whole at -O2 or -Og about 30, in pieces 15, at -O0 2. One
evaluation of 59,000 takes 55 us in pieces and 170 us at -O0; the virtual machine takes 5 ns an instruction."""

_DIGEST = hashlib.sha256().digest_size
_PROBE = "double saltus_probe(double x) { return 2.0 * x; }\n"


class CompileError(SaltusError):
    """The C compiler refused a source; carries the command and the end of what it printed."""


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


def _examine(command: str) -> Compiler | None:
    """Return the compiler a command line names if it builds and loads a small library."""
    program, *arguments = shlex.split(command)
    path = shutil.which(program)
    if path is None:
        return None
    try:
        said = subprocess.run([path, *arguments, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = (said.stdout or said.stderr).partition("\n")[0].strip()
    for tuning in ("-march=native", "-mcpu=native", ""):
        compiler = Compiler(path, version, (*arguments, *tuning.split()))
        try:
            _build(compiler, _PROBE, ("-O1",))
        except CompileError:
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
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise BadValue(
            f"the cache directory {path} (owner {about.st_uid}, mode {about.st_mode & 0o777:o}) can be "
            f"written by others, and its files are executed. Run `chmod go-w {path}` if it is yours, "
            "or set SALTUS_CACHE_DIR to a private directory",
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


def build(source: str, flags: Sequence[str] = ()) -> Path:
    """Return the shared library of a C source, from the cache if it was built before.

    `flags` are added to `FLAGS` and to the level that goes with the length of the source.
    """
    compiler = find_compiler()
    if compiler is None:
        raise NoCompiler(
            "no C compiler found. Install one (gcc or clang), name it in SALTUS_CC, "
            "or ask for the virtual machine with native=False",
            looked_for=["SALTUS_CC", "CC", "cc", "gcc", "clang"],
        )
    if left_as_it_is(source):
        return _build(compiler, source, ("-O0", *flags))
    return _build(compiler, cut(source) if len(source) > LONG else source, ("-O2", *flags))


def left_as_it_is(source: str) -> bool:
    """Whether a source is so long that it is compiled without optimisation."""
    return len(source) > HUGE


def _build(compiler: Compiler, source: str, flags: tuple[str, ...]) -> Path:
    options = (*compiler.arguments, *FLAGS, *flags)
    recipe = "\0".join((source, compiler.path, compiler.version, *options, _cpu()))
    path = cache_dir() / (hashlib.sha256(recipe.encode()).hexdigest() + ".so")
    if not _sound(path):
        _compile(compiler, source, options, path)
        if not _sound(path):
            raise CompileError(
                f"{compiler.path} built {path}, and it cannot be loaded. If {path.parent} lies on a file "
                "system mounted noexec, set SALTUS_CACHE_DIR to a directory on another one",
                command=compiler.path,
                output="",
            )
    return path


def _compile(compiler: Compiler, source: str, options: tuple[str, ...], path: Path) -> None:
    """Compile into a file of our own and rename it, so that no reader ever sees half a library."""
    command = [compiler.path, *options, "-x", "c", "-", "-lm", "-o"]
    handle, name = tempfile.mkstemp(prefix=path.stem[:16], suffix=".tmp", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        said = subprocess.run([*command, name], input=source, capture_output=True, text=True)
        if said.returncode:
            tail = "\n".join(said.stderr.strip().splitlines()[-15:])
            raise CompileError(
                f"{compiler.path} could not build {len(source)} characters of C:\n{tail}",
                command=shlex.join([*command, name]),
                output=tail,
            )
        content = part.read_bytes()
        # The loader ignores what follows the library; a digest there tells a whole file from a torn one.
        part.write_bytes(content + hashlib.sha256(content).digest())
        part.chmod(0o700)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _sound(path: Path) -> bool:
    """Whether a cached library is whole and loads: loading a torn one can end the process."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    if hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        return False
    try:
        ctypes.CDLL(str(path))
    except OSError:
        return False
    return True


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
