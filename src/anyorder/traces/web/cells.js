// Replays a trace: every cell of the canvas with what happened to it and when. Pure functions, no page.

const NEGLIGIBLE = -1e9;

// Events carry `step`, the 0-based index of the step; time t means that t steps have been made.
function unroll(trace) {
  const cells = trace.canvas.map((token) => ({ fixed: token, born: -1, events: [] }));
  trace.steps.forEach((step, index) => {
    const writes = step.positions.map((position, i) => ({
      position,
      event: {
        kind: "write", step: index, token: step.tokens[i], logp: step.logp[i] ?? NEGLIGIBLE,
        alternatives: step.alternatives ? step.alternatives[i] : null,
      },
    }));
    if (trace.edit === "insert") {
      writes.sort((a, b) => b.position - a.position);
      for (const { position, event } of writes) cells.splice(position, 0, { fixed: null, born: index, events: [event] });
    } else {
      for (const { position, event } of writes) cells[position].events.push(event);
    }
    for (const position of step.erased) {
      const token = tokenAt(cells[position], index + 1);
      cells[position].events.push({ kind: "erase", step: index, token });
    }
  });
  return cells;
}

// The last thing that happened to a cell before time t, or null.
function eventAt(cell, t) {
  let last = null;
  for (const event of cell.events) if (event.step < t) last = event;
  return last;
}

function tokenAt(cell, t) {
  const event = eventAt(cell, t);
  if (!event) return cell.fixed;
  return event.kind === "write" ? event.token : null;
}

function existsAt(cell, t) {
  return cell.born < t;
}

// Neighbouring cells that make up one word at the end, as lists of cell indices.
function words(cells, steps, pieces) {
  const groups = [];
  cells.forEach((cell, i) => {
    const here = pieces[tokenAt(cell, steps)];
    const before = i ? pieces[tokenAt(cells[i - 1], steps)] : null;
    const joined = i && ((here && here.left) || (before && before.right)) && !(here && here.special) && !(before && before.special);
    if (joined) groups[groups.length - 1].push(i);
    else groups.push([i]);
  });
  return groups;
}

// log p(L) and the sum of log p(z) + log p(y) after each number of steps: the path's log-probability so far.
function runningScore(trace) {
  const sums = [trace.log_length ?? 0];
  for (const step of trace.steps) {
    const gain = step.logp.reduce((sum, p) => sum + (p ?? 0), step.logz ?? 0);
    sums.push(sums[sums.length - 1] + gain);
  }
  return sums;
}

// Round numbers that divide [low, high] into about `count` parts.
function ticks(low, high, count) {
  if (high <= low) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const marks = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-9; i++) marks.push(+(i * step).toFixed(6));
  return marks;
}
