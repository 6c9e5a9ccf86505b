"""Policy: what a network learned, as a plain function in NumPy and in C."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from saltus.learn.task import Task

HEADER = """/* Actions, in the units of their task, of observations: layers of tanh, then a linear one. */
#ifndef SALTUS_POLICY_H
#define SALTUS_POLICY_H

#define POLICY_INPUTS {inputs}
#define POLICY_OUTPUTS {outputs}

void policy(const double seen[POLICY_INPUTS], double action[POLICY_OUTPUTS]);

#endif
"""

SOURCE = """#include "policy.h"

#include <math.h>

{tables}
static void layer(const double *weight, const double *bias, int n, int m, const double *x, double *y) {{
  int i, j;
  for (i = 0; i < n; ++i) {{
    y[i] = bias[i];
    for (j = 0; j < m; ++j) y[i] += weight[i * m + j] * x[j];
  }}
}}

void policy(const double seen[POLICY_INPUTS], double action[POLICY_OUTPUTS]) {{
  double x[{widest}], y[{widest}];
  int i;
  for (i = 0; i < POLICY_INPUTS; ++i) x[i] = seen[i];
{calls}
  for (i = 0; i < POLICY_OUTPUTS; ++i) {{
    const double share = x[i] < -1.0 ? -1.0 : x[i] > 1.0 ? 1.0 : x[i];
    action[i] = low[i] + (high[i] - low[i]) * (share + 1.0) / 2.0;
  }}
}}
"""


@dataclass(frozen=True, eq=False)
class Policy:
    """The mean action of a trained policy as a function of what it sees: tanh layers, then a linear one."""

    layers: Sequence[tuple[np.ndarray, np.ndarray]]

    def __call__(self, seen: np.ndarray) -> np.ndarray:
        """Action between -1 and 1."""
        for weight, bias in self.layers[:-1]:
            seen = np.tanh(weight @ seen + bias)
        weight, bias = self.layers[-1]
        return np.clip(weight @ seen + bias, -1.0, 1.0)

    def law(self, task: Task) -> Callable[[Any, sl.Signals], Mapping[str, Any]]:
        """The policy as a law (t, s) of the task's machine: for `simulate`, and to be exported with the machine.

        It acts at every instant on what it sees then, where training holds an action for a while.
        """

        def law(t: Any, s: sl.Signals) -> Mapping[str, Any]:
            seen = list(task.observe(t, s))
            for k, (weight, bias) in enumerate(self.layers):
                rows = zip(weight, bias, strict=True)
                seen = [float(b) + sum(float(w) * x for w, x in zip(row, seen, strict=True)) for row, b in rows]
                seen = seen if k == len(self.layers) - 1 else [sl.math.tanh(x) for x in seen]
            return task.effort(t, s, [*seen, *(0.0 for _ in task.pushes)])

        return law

    def export(self, task: Task, folder: str | Path) -> list[Path]:
        """Write policy.h and policy.c (C99, no allocation), with actions in the range of a task; return the files."""
        inputs, outputs = self.layers[0][0].shape[1], len(self.layers[-1][1])
        arrays = {"low": np.asarray(task.low, float), "high": np.asarray(task.high, float)}
        calls, last = [], len(self.layers) - 1
        for k, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight_{k}": weight.ravel(), f"bias_{k}": bias}
            n, m = weight.shape
            calls.append(f"  layer(weight_{k}, bias_{k}, {n}, {m}, x, y);")
            calls.append(f"  for (i = 0; i < {n}; ++i) x[i] = {'y[i]' if k == last else 'tanh(y[i])'};")
        tables = "".join(
            f"static const double {name}[{len(values)}] = {{{', '.join(f'{x:.17g}' for x in values)}}};\n"
            for name, values in arrays.items()
        )
        widest = max(inputs, *(len(bias) for _, bias in self.layers))
        texts = {
            "policy.h": HEADER.format(inputs=inputs, outputs=outputs),
            "policy.c": SOURCE.format(tables=tables, widest=widest, calls="\n".join(calls)),
        }
        out = []
        for name, text in texts.items():
            out.append(Path(folder) / name)
            out[-1].write_text(text)
        return out
