// Learning: how often the means of a run's variables are correlated over training, with which ones, and their final types.
const LEARNING = DATA.learning, watching = { run: null, variable: null };
const pairsKept = new Map();
// The correlation of two shown variables at a moment; pairs are stored as (1, 0), (2, 0), (2, 1), ... in thousandths.
function correlationsOf(run) {
  if (!pairsKept.has(run.run)) pairsKept.set(run.run, bytes(run.correlations));
  const view = pairsKept.get(run.run), pairs = (run.variables.length * (run.variables.length - 1)) / 2;
  return (t, a, b) => view.getInt16(2 * (t * pairs + (Math.max(a, b) * (Math.max(a, b) - 1)) / 2 + Math.min(a, b)), true) / 1000;
}
const finalOf = (run) => run.variables.map((j) => KINDS[run.final[j]]);
const byFinal = (run) => { const final = finalOf(run); return [...run.variables.keys()].sort((a, b) => TYPES.indexOf(final[a]) - TYPES.indexOf(final[b]) || a - b); };
const runName = (run) => { const own = DATA.runs.find((r) => r.run === run.run); return `${own.method}, strength ${strengthText(own.strength)}, ${own.dataset}, seed ${own.seed}`; };
const watchedRuns = () => { const names = new Set(kept().map((run) => run.run)); return LEARNING.runs.filter((run) => names.has(run.run)); };

function drawCounts(run) {
  const host = find("#counts-chart"), width = widthOf(host, 260), height = 250, box = { left: 50, right: width - 8, top: 24, bottom: height - 38 };
  const most = (run.final.length - 1) * run.moments, top = Math.max(1, ...run.counts), drawing = canvas(host, width, height, `Pairs and moments with correlation above ${LEARNING.threshold}, by variable; the arrow keys show the values`);
  const pitch = (box.right - box.left) / run.variables.length, x = (i) => box.left + (i + 0.5) * pitch, y = scale(0, top * 1.12, box.bottom, box.top);
  const every = Math.ceil(20 / pitch);
  axes(drawing, box, x, y, [...run.variables.keys()].filter((i) => i % every === 0), ticks(0, top * 1.12, 4), { xText: (i) => String(run.variables[i]), xLabel: "variable", yLabel: "pairs and moments" });
  run.variables.forEach((j, i) => {
    const kind = KINDS[run.final[j]], count = run.counts[j];
    drawing.append(svg("g", { class: kind, "data-tip": `variable ${j} (${kind})\n${count} of ${most} pairs and moments, ${percent(count / most)}` }, svg("rect", { class: `lane ${kind}`, x: x(i) - pitch * 0.36, y: y(count), width: pitch * 0.72, height: box.bottom - y(count) })));
    if (pitch > 12) drawing.append(svg("text", { class: "strong", x: x(i), y: y(count) - 5, "text-anchor": "middle", "font-weight": 600 }, kind[0].toUpperCase()));
  });
  find("#counts-note").textContent = `Times |correlation| with another variable was above ${LEARNING.threshold}, over ${run.moments} moments.`;
}
// A mean over the chosen runs, so that it describes a kind of pair and not one model.
function sharesTable() {
  const runs = watchedRuns(), kinds = unique(runs.flatMap((run) => Object.keys(run.pairs)));
  return { columns: ["pair", "pairs", "whole training", "second half", "runs"], rows: kinds.map((kind) => {
    const own = runs.filter((run) => kind in run.pairs);
    return [kind, mean(own.map((run) => run.pairs[kind])), ...["whole", "second half"].map((part) => mean(own.map((run) => run.shares[part][kind]))), own.length];
  }) };
}
function drawShares(run) {
  const table = sharesTable(), runs = watchedRuns().filter((other) => other.periods.length === run.periods.length), last = run.steps[run.steps.length - 1] || 1;
  const series = table.rows.map(([kind], i) => ({ name: kind, colour: look(i).colour, dash: look(i).dash, mark: look(i).marker, points: run.periods.map((period, p) => {
    const values = runs.map((other) => other.periods[p].shares[kind]).filter((value) => value !== undefined);
    return [((period.from + period.to) / 2 / last) * 100, values.length ? mean(values) : null];
  }) }));
  const top = Math.max(0.05, ...series.flatMap((s) => s.points.map((p) => p[1] || 0)));
  find("#shares-legend").replaceChildren(...series.map((s) => key("", s.colour, s.dash, s.mark, s.name)));
  lines(find("#shares-chart"), series, "Share of correlated pairs by their types over training", { xLabel: "% of training", yLabel: `share above ${LEARNING.threshold}`, height: 250, domain: [0, Math.min(1, top * 1.08)], xText: (value) => brief(Math.round(value)), markers: true });
  find("#shares-note").textContent = runs.length > 1 ? `Share of pairs, mean of the ${runs.length} chosen runs.` : "Share of pairs in each part of training.";
  fill(find("#shares-table"), "shares", table, drawLearning, (value, i) => (typeof value !== "number" ? String(value) : i === 2 || i === 3 ? value.toFixed(2) : number(value)));
}
function drawPartners(run) {
  const at = run.variables.indexOf(watching.variable), value = correlationsOf(run), final = finalOf(run), host = find("#partner-charts");
  find("#partner-title").textContent = `Correlations of variable ${watching.variable} (${final[at]}) with the others`;
  const groups = TYPES.map((type) => [type, [...run.variables.keys()].filter((i) => i !== at && final[i] === type)]).filter(([, own]) => own.length), hosts = groups.map(() => html("div", {}));
  host.replaceChildren(...groups.map(([type], g) => html("div", { class: "panel" }, html("h3", {}, "with ", badge(type)), hosts[g])));
  groups.forEach(([type, own], g) => lines(hosts[g], own.map((i) => ({ name: `variable ${run.variables[i]}`, tag: String(run.variables[i]), kind: type, points: run.steps.map((step, t) => [step, value(t, at, i)]) })), `Correlation of variable ${watching.variable} with the ${type} ones over training`, { yLabel: "correlation", domain: [-1, 1], height: 230 }));
}
function drawSettling(run) {
  const final = finalOf(run), order = byFinal(run);
  lanes(find("#learning-lanes"), { steps: run.steps, types: run.types, names: run.variables, order, final }, "Type of each variable over training; the arrow keys show the values");
  const of = (values) => order.map((i) => ({ name: `variable ${run.variables[i]} (${final[i]})`, tag: String(run.variables[i]), kind: final[i], dash: LOOKS.types[final[i]].dash, points: run.steps.map((step, t) => [step, values[t][i]]) }));
  lines(find("#learning-kl"), of(run.kl), "KL of each variable to the prior over training", { yLabel: "nats", height: 270 });
  lines(find("#learning-ratio"), of(run.ratio), "Posterior variance over prior variance of each variable over training", { yLabel: "E[r]", height: 270 });
}
// The step since which a variable has had its final type.
function settled(run, i) {
  let t = run.types.length - 1;
  while (t > 0 && run.types[t - 1][i] === run.types[run.types.length - 1][i]) t--;
  return run.steps[t];
}
const variablesTable = (runs) => ({ columns: ["run", "variable", "type", "correlated", "share", "kl", "ratio", "type_since"],
  rows: runs.flatMap((run) => run.variables.map((j, i) => [run.run, j, KINDS[run.final[j]], run.counts[j], Number((run.counts[j] / ((run.final.length - 1) * run.moments)).toFixed(4)), run.kl[run.kl.length - 1][i], run.ratio[run.ratio.length - 1][i], settled(run, i)])) });
const momentsTable = () => ({ columns: ["run", "step", "variable", "type", "kl", "ratio"],
  rows: watchedRuns().flatMap((run) => run.steps.flatMap((step, t) => run.variables.map((j, i) => [run.run, step, j, KINDS[run.types[t][i]], run.kl[t][i], run.ratio[t][i]]))) });
const pairsTable = () => ({ columns: ["run", "step", "variable", "type", "with", "with_type", "correlation"],
  rows: watchedRuns().flatMap((run) => { const value = correlationsOf(run), final = finalOf(run); return run.steps.flatMap((step, t) => run.variables.flatMap((j, i) => run.variables.slice(0, i).map((k, l) => [run.run, step, j, final[i], k, final[l], value(t, i, l)]))); }) });

function offerRuns() {
  const runs = watchedRuns();
  if (!runs.some((run) => run.run === watching.run)) watching.run = runs.length ? runs[0].run : null;
  find("#watched").replaceChildren(...runs.map((run) => html("option", { value: run.run }, runName(run))));
  if (watching.run !== null) find("#watched").value = watching.run;
  return runs.find((run) => run.run === watching.run);
}
// The variable of the paper's figure is active; here it is the one with the most information.
function strongest(run) {
  const final = finalOf(run), rates = run.kl[run.kl.length - 1];
  const order = [...run.variables.keys()].sort((a, b) => (final[b] === "active") - (final[a] === "active") || rates[b] - rates[a]);
  return run.variables[order[0]];
}
function drawLearning() {
  if (!LEARNING.runs.length) return;
  const run = offerRuns();
  find("#learning-charts").hidden = find("#learning-legend").hidden = !run;
  find("#watched-name").textContent = run ? run.run : "No chosen run has snapshots of its training.";
  if (!run) return;
  if (!run.variables.includes(watching.variable)) watching.variable = strongest(run);
  find("#partner").replaceChildren(...byFinal(run).map((i) => html("option", { value: run.variables[i] }, `${run.variables[i]}, ${KINDS[run.final[run.variables[i]]]}`)));
  find("#partner").value = watching.variable;
  find("#learning-legend").replaceChildren(...laneKeys());
  drawCounts(run);
  drawShares(run);
  drawPartners(run);
  drawSettling(run);
  const { columns, rows } = variablesTable([run]);
  fill(find("#learning-table"), "learning", { columns: columns.slice(1), rows: rows.map((row) => row.slice(1)) }, drawLearning);
}
function setUpLearning() {
  if (!LEARNING.runs.length) return;
  const cut = [LEARNING.left_out ? `${LEARNING.left_out} further runs have snapshots; the page shows ${LEARNING.runs.length}.` : "", LEARNING.runs.some((run) => run.steps.length < run.moments) ? "Lines show evenly spaced moments; counts and shares include all." : "", LEARNING.runs.some((run) => run.variables.length < run.final.length) ? "Of many variables some are shown, from the most informative to the least." : ""].filter(Boolean).join(" ");
  find("#learning-cut").hidden = !cut;
  find("#learning-cut").textContent = cut;
  find("#watched").addEventListener("change", (event) => { watching.run = event.target.value; watching.variable = null; drawLearning(); });
  find("#partner").addEventListener("change", (event) => { watching.variable = Number(event.target.value); drawLearning(); });
  find("#learning-downloads").replaceChildren(downloadButton("correlated_variables", "correlated variables", () => variablesTable(watchedRuns())), downloadButton("correlated_pairs", "pairs by type", sharesTable), downloadButton("over_training", "over training", momentsTable), downloadButton("correlations_over_training", "correlations over training", pairsTable));
}
