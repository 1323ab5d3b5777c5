// The table of variables: sorted by any column, filtered by type, with small histograms drawn inline.
function spark(counts, kind, mark, text) {
  const top = Math.max(1, ...counts), width = 100, height = 26, step = width / counts.length;
  const path = counts.map((c, i) => (c ? `M${(i * step).toFixed(1)} ${height}v${-Math.max(0.8, (c / top) * height).toFixed(1)}h${(step * 0.94).toFixed(1)}V${height}Z` : "")).join("");
  const drawing = svg("svg", { class: `spark of-${kind}`, viewBox: `0 0 ${width} ${height + 1}`, preserveAspectRatio: "none", role: "img", "aria-label": text, "data-tip": text }, svg("path", { d: path }),
    svg("line", { class: "axis", x1: 0, x2: width, y1: height + 0.5, y2: height + 0.5 }));
  if (mark > 0 && mark < 1) drawing.append(svg("line", { class: "axis", x1: mark * width, x2: mark * width, y1: 0, y2: height, "stroke-dasharray": "2 2" }));
  return drawing;
}
// Columns are called as on the screen; the type is the one at this threshold.
const SHOWN = ["variable", "type", "confidence", "kl", "ratio_mean", "ratio_variance", "shift", "noise_share", "polarity", "distance_errors"];
const described = (name, key = name) => [key, capital(DATA.evidence[name][0]), DATA.evidence[name][1]];
const EVIDENCE = SHOWN.map((name) => described(name, name === "type" ? "own" : name));
const order = { key: "own", descending: false };
const shownTypes = new Set(TYPES);
function sortKey(name) {
  if (name === "own") return (j) => TYPES.indexOf(types[j]) * 1e9 - Math.min(variables[j].kl, 1e8);
  if (name === "permuted") return (j) => (model.use.get(variables[j].variable) || {}).permuted;
  return (j) => variables[j][name];
}
// Rows are built once for a model; moving alpha only changes what a type changes, and their order.
let rows = [];
function buildVariables() {
  const withUse = model.use.size > 0;
  const columns = withUse ? [...EVIDENCE, described("decoder_use", "permuted")] : EVIDENCE;
  const heads = columns.map(([key, label, help]) => html("th", { scope: "col", class: key === "own" ? "left" : null }, html("button", { type: "button", "data-key": key, "data-tip": help, onclick: () => {
    order.descending = order.key === key ? !order.descending : !["variable", "own"].includes(key);
    order.key = key;
    drawVariables();
  } }, label)));
  heads.splice(2, 0, ...[described("why")[1], "Mean μ", "Sample z", "Variance σ²"].map((label) => html("th", { scope: "col", class: "left" }, label)));
  rows = variables.map((v, j) => {
    const h = model.histograms[j], zero = (0 - h.low) / (h.high - h.low), use = model.use.get(v.variable);
    const row = { type: html("td", { class: "left" }), why: html("td", { class: "left muted why" }), sure: html("td", {}), margin: html("td", {}), polarity: html("td", {}), key: null };
    row.tr = html("tr", { id: `variable-${v.variable}` },
      html("td", {}, String(v.variable)),
      row.type,
      row.why,
      html("td", {}, spark(h.mean, "mean", zero, `means of variable ${v.variable}, from ${number(h.low)} to ${number(h.high)}`)),
      html("td", {}, spark(h.sampled, "sampled", zero, `samples of variable ${v.variable}, from ${number(h.low)} to ${number(h.high)}`)),
      html("td", {}, spark(h.variance, "variance", 0, `posterior variances of variable ${v.variable}, from 0 to ${number(h.top)}`)),
      row.sure,
      ["kl", "ratio_mean", "ratio_variance", "shift", "noise_share"].map((key) => html("td", {}, number(v[key]))),
      row.polarity,
      row.margin,
      withUse ? html("td", { "data-tip": use && use.redrawn !== undefined ? `± ${number(use.permuted_error)}; redrawn from the prior: ${number(use.redrawn)}` : null }, use ? number(use.permuted) : "–") : null);
    return row;
  });
  find("#variables-table").replaceChildren(html("caption", { class: "screen-reader" }, "Latent variables, their types and the evidence"), html("thead", {}, html("tr", {}, heads)), html("tbody", {}));
}
function updateRow(j, made) {
  const row = rows[j], v = variables[j], key = `${types[j]} ${made}`;
  if (row.key === key) return;
  row.key = key;
  const flags = [v.doubtful && made ? "doubtful" : null, v.prior_driven ? "prior-driven" : null, v.uninformative && types[j] === "mixed" ? "uninformative" : null].filter(Boolean);
  row.type.replaceChildren(badge(types[j]), flags.length ? html("span", { class: "muted" }, ` ${flags.join(", ")}`) : "");
  row.why.textContent = made ? v.why.replace(/^[a-z]+: /, "") : "–";
  row.tr.classList.toggle("changed", v.type !== types[j]);
  for (const cell of [row.sure, row.margin]) {
    cell.classList.toggle("muted", !made);
    // Confidence and margin belong to the threshold they were computed at.
    cell.dataset.tip = made ? "" : `computed at α = ${model.alpha}, ${model.rule} rule`;
  }
  row.sure.replaceChildren(...(made ? [html("span", { class: "meter", "aria-hidden": "true" }, meter(v.confidence)), percent(v.confidence)] : ["–"]));
  row.margin.textContent = made ? (v.distance_errors < 1000 ? number(v.distance_errors, 2) : "> 999") : "–";
  // What is off for every input is neither on for some nor alike for all: its polarity is noise.
  row.polarity.textContent = types[j] === "passive" ? "–" : number(v.polarity);
}
function drawVariables() {
  const made = asMade(), chosen = sorted([...variables.keys()].filter((j) => shownTypes.has(types[j]) && (shownGroup === null || variables[j].group === shownGroup)), sortKey(order.key), order.descending);
  chosen.forEach((j) => updateRow(j, made));
  find("#variables-table tbody").replaceChildren(...chosen.map((j) => rows[j].tr));
  for (const button of all("#variables-table th button")) button.parentNode.setAttribute("aria-sort", button.dataset.key !== order.key ? "none" : order.descending ? "descending" : "ascending");
  find("#shown").textContent = `${chosen.length} of ${variables.length}${model.latents > variables.length ? ` listed variables (of ${model.latents.toLocaleString("en")})` : ""} shown`;
}
function meter(value) {
  const inner = html("i", {});
  inner.style.width = `${Math.round((value || 0) * 100)}%`;
  return inner;
}
function setUpVariables() {
  find("#type-filter").replaceChildren(...TYPES.map((type) => html("button", { type: "button", value: type, "aria-pressed": "true", onclick: (event) => {
    const on = !shownTypes.has(type);
    if (on) shownTypes.add(type); else shownTypes.delete(type);
    event.currentTarget.setAttribute("aria-pressed", String(on));
    drawVariables();
  } }, type)));
}
