"""Long C functions cut into pieces: a compiler's time grows faster than the function it is given."""

from __future__ import annotations

import re

LENGTH = 150  # statements per piece
VECTORS, WHOLE = 400, 30_000
"""Statements per piece of a function of vectors, and how many are left in one: what passes from piece to piece costs
more there. The quadruped's kernel of 20,000 takes 13 s of the processor to compile whole and 5.5 s in pieces, with
which its steps take 1.3 times as long; one of 84,000, of a robot with 36 contacts, takes 12 s in pieces."""

_FUNCTION = re.compile(
    r"^static int (\w+)\(const casadi_real\*\* arg, casadi_real\*\* res, casadi_int\* iw, "
    r"casadi_real\* w, int mem\) \{\n"
    r"(?:  casadi_real a\d+(?:, a\d+)*;\n)+"
    r"((?:  (?:a\d+=|(?:if \(res\[\d+\]!=0\) )?res\[\d+\]\[\d+\]=).*;\n)+)"
    r"  return 0;\n\}\n",
    re.MULTILINE,
)
_VECTORS = re.compile(  # as `batch.native` writes functions of vectors
    r"^static __attribute__\(\(noinline\)\) void (\w+)\(([^)]*)\) \{\n"
    r"(?:  V a\d+(?:, a\d+)*;\n)+((?:  \(void\)\w+;\n)*)"
    r"((?:  \w+(?:\[\d+\])? = .*;\n)+)\}\n",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"\ba\d+\b")
_INPUT = re.compile(r"(?:arg\[\d+\]\? )?arg\[(\d+)\]\[(\d+)\](?: : 0)?")
_OUTPUT = re.compile(r"(?:if \(res\[\d+\]!=0\) )?res\[(\d+)\]\[(\d+)\]=")
PIECE = """
#if defined(__GNUC__)
#define SALTUS_PIECE static __attribute__((noinline))
#else
#define SALTUS_PIECE static
#endif
"""
_HIDDEN = """
#if defined(__GNUC__)
#define SALTUS_SHARED __attribute__((visibility("hidden")))
#else
#define SALTUS_SHARED
#endif
"""


def cut(source: str, length: int = LENGTH) -> str:
    """Return C with every longer function of scalars or vectors, without loops, as a row of calls.

    A variable that one piece leaves to a later one passes through an array on the stack.
    """
    out = _FUNCTION.sub(lambda found: _of_scalars(found, length), source)
    out = _VECTORS.sub(_of_vectors, out)
    return PIECE + out if "SALTUS_PIECE" in out else source


def _of_scalars(found: re.Match[str], length: int) -> str:
    name, body = found.groups()
    if body.count("\n") <= 2 * length:
        return found.group(0)
    # A missing argument counts as zeros, a result nobody wants is thrown away: decided once, not at every access.
    given, zeros = _ends(_INPUT, body, "arg", "const casadi_real* ", "x")
    asked, sinks = _ends(_OUTPUT, body, "res", "casadi_real* ", "y")
    lines = _OUTPUT.sub(r"y[\1][\2]=", _INPUT.sub(r"x[\1][\2]", body)).splitlines()
    out, room = _pieces(lines, length, name, "const casadi_real** x, casadi_real** y", "casadi_real")
    out.append(
        f"static int {name}(const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int mem) {{"
    )
    return "\n".join([*out, *zeros, *sinks, given, asked, *room, "  return 0;", "}", ""])


def _of_vectors(found: re.Match[str]) -> str:
    name, given, unused, body = found.groups()
    if body.count("\n") <= WHOLE:
        return found.group(0)
    out, calls = _pieces(body.splitlines(), VECTORS, name, given, "V")
    return "\n".join([*out, f"static void {name}({given}) {{", unused.rstrip("\n"), *calls, "}", ""])


def _pieces(lines: list[str], length: int, name: str, given: str, kind: str) -> tuple[list[str], list[str]]:
    """Functions of the arguments `given` and what others left in s, and the lines that call them one after another."""
    parts = [lines[i : i + length] for i in range(0, len(lines), length)]
    read, written = zip(*[_variables(part) for part in parts], strict=True)
    left: list[set[str]] = []  # what a piece must leave behind, from the last to the first
    wanted: set[str] = set()
    for i in reversed(range(len(parts))):
        left.append(wanted & written[i])
        wanted = (wanted - written[i]) | read[i]
    left.reverse()
    place = {variable: k for k, variable in enumerate(sorted(set().union(*left)))}
    out = []
    for i, part in enumerate(parts):
        out.append(f"SALTUS_PIECE void {name}_{i}({given}, {kind}* s) {{")
        out += [f"  {kind} {', '.join(sorted(written[i]))};"] if written[i] else []
        above = {v: f"s[{place[v]}]" for v in read[i]}  # what is read before it is written, where it is read
        for line in part:
            target, _, value = line.partition("=")
            words = re.split(f"({_VARIABLE.pattern})", value)
            out.append(f"{target}={''.join(above.get(word, word) for word in words)}")
            above.pop(target.strip(), None)
        out += [f"  s[{place[v]}]={v};" for v in sorted(left[i])]
        out.append("}")
    names = ", ".join(re.findall(r"(\w+)(?:,|$)", given))
    return out, [f"  {kind} s[{max(len(place), 1)}];", *(f"  {name}_{i}({names}, s);" for i in range(len(parts)))]


_SHARED = re.compile(
    r"^(?:static int|SALTUS_PIECE void) (\w+)(\((?:const casadi_real\*|V t, )[^)]*\)) \{\n.*?^\}\n",
    re.MULTILINE | re.DOTALL,
)


def shared_out(source: str, units: int) -> tuple[str, int]:
    """Return C for several compilers at once, and how many: -DSALTUS_UNIT=k compiles the k-th share of its functions.

    Functions are hidden instead of static, so that they find each other and nobody else does; unit 0 has the rest.
    """
    found = list(_SHARED.finditer(source))
    units = min(units, len(found))
    if units < 2:
        return source, 1
    load, share = [0] * units, {}
    for one in sorted(found, key=lambda f: -len(f.group(0))):
        share[one.start()] = least = load.index(min(load))
        load[least] += len(one.group(0))
    begin = found[0].start()
    out, at = [source[:begin], _HIDDEN], begin
    kinds = ["int" if f.group(0).startswith("static") else "void" for f in found]
    out += [f"SALTUS_SHARED {kind} {f.group(1)}{f.group(2)};\n" for kind, f in zip(kinds, found, strict=True)]
    for kind, one in zip(kinds, found, strict=True):
        out.append(_of_unit(0, source[at : one.start()]))
        body = one.group(0).partition("(")[2]
        out.append(_of_unit(share[one.start()], f"SALTUS_SHARED {kind} {one.group(1)}({body}"))
        at = one.end()
    return "".join([*out, _of_unit(0, source[at:])]), units


def _of_unit(unit: int, text: str) -> str:
    return f"#if SALTUS_UNIT == {unit}\n{text}\n#endif\n" if text.strip() else ""


def _ends(access: re.Pattern[str], body: str, name: str, kind: str, short: str) -> tuple[str, list[str]]:
    """Declare the arrays behind a function's arguments or results, with something in place of missing ones."""
    sizes: dict[int, int] = {}
    for which, entry in access.findall(body):
        sizes[int(which)] = max(sizes.get(int(which), 0), int(entry) + 1)
    spare = [f"  casadi_real {short}{i}[{n}] = {{0}};" for i, n in sizes.items()]
    some = [f"{name}[{i}] ? {name}[{i}] : {short}{i}" for i in range(max(sizes, default=0) + 1)]
    chosen = [text if i in sizes else "0" for i, text in enumerate(some)]
    return f"  {kind}{short}[] = {{{', '.join(chosen)}}};", spare


def _variables(part: list[str]) -> tuple[set[str], set[str]]:
    """Variables that are read before they are written here, and those that are written."""
    read: set[str] = set()
    written: set[str] = set()
    for line in part:
        target, _, value = line.strip().partition("=") if line.startswith("  a") else ("", "", line)
        read.update(v for v in _VARIABLE.findall(value) if v not in written)
        if target:
            written.add(target.rstrip())
    return read, written
