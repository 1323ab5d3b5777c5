// The table of variables: sorted by any column, filtered by type, with small histograms drawn inline.
function spark(counts, kind, mark, text) {
  const top = Math.max(1, ...counts), width = 100, height = 26, step = width / counts.length;
  const path = counts.map((c, i) => (c ? `M${(i * step).toFixed(1)} ${height}v${-Math.max(0.8, (c / top) * height).toFixed(1)}h${(step * 0.94).toFixed(1)}V${height}Z` : "")).join("");
  const drawing = svg("svg", { class: `spark of-${kind}`, viewBox: `0 0 ${width} ${height + 1}`, preserveAspectRatio: "none", role: "img", "aria-label": text, "data-tip": text }, svg("path", { d: path }),
    svg("line", { class: "axis", x1: 0, x2: width, y1: height + 0.5, y2: height + 0.5 }));
  if (mark > 0 && mark < 1) drawing.append(svg("line", { class: "axis", x1: mark * width, x2: mark * width, y1: 0, y2: height, "stroke-dasharray": "2 2" }));
  return drawing;
}
// Columns have the same names as in the terminal; the type is the one at this threshold.
const SHOWN = ["variable", "type", "confidence", "kl", "ratio_mean", "ratio_variance", "shift", "noise_share", "polarity", "distance_errors"];
const described = (name, key = name) => [key, capital(DATA.evidence[name][0]), DATA.evidence[name][1]];
const EVIDENCE = SHOWN.map((name) => described(name, name === "type" ? "own" : name));
const order = { key: "own", descending: false };
// The shown rows: of some types, of one group of latents, with one reason; and their number.
const STEP = 100;
const chosenRows = { types: new Set(TYPES), group: null, kind: null, limit: STEP };
function sortKey(name) {
  if (name === "own") return (j) => TYPES.indexOf(types[j]) * 1e9 - Math.min(variables[j].kl, 1e8);
  if (name === "permuted") return (j) => (model.use.get(variables[j].variable) || {}).permuted;
  return (j) => variables[j][name];
}
// The reason without its type, and its kind: the same words without the numbers.
const reasonOf = (v) => v.why.replace(/^[a-z]+: /, "");
const kindOf = (v) => reasonOf(v).replace(/\d[\d.,]*( ± \d[\d.,]*)?/g, "…");
let rows = new Map();
function buildVariables() {
  const columns = model.use.size ? [...EVIDENCE, described("decoder_use", "permuted")] : EVIDENCE;
  const heads = columns.map(([key, label, help]) => html("th", { scope: "col", class: key === "own" ? "left" : null }, html("button", { type: "button", "data-key": key, "data-tip": help, onclick: () => {
    order.descending = order.key === key ? !order.descending : !["variable", "own"].includes(key);
    order.key = key;
    drawVariables();
  } }, label)));
  heads.splice(2, 0, ...[described("why")[1], "Mean μ", "Sample z", "Variance σ²"].map((label) => html("th", { scope: "col", class: "left" }, label)));
  rows = new Map();
  Object.assign(chosenRows, { group: null, kind: null, limit: STEP });
  find("#variables-table").replaceChildren(html("caption", { class: "screen-reader" }, "Latent variables, their types and the evidence"), html("thead", {}, html("tr", {}, heads)), html("tbody", {}));
}
// A row is built when it is first shown; moving alpha changes only the cells that depend on the type, and the order.
function rowOf(j) {
  if (!rows.has(j)) rows.set(j, buildRow(j));
  return rows.get(j);
}
function buildRow(j) {
  const v = variables[j], h = model.histogram.get(v.variable), use = model.use.get(v.variable), withUse = model.use.size > 0;
  const row = { type: html("td", { class: "left" }), why: html("td", { class: "left muted why" }), sure: html("td", {}), margin: html("td", {}), polarity: html("td", {}), key: null };
  const zero = h ? (0 - h.low) / (h.high - h.low) : 0;
  const sparks = h ? [spark(h.mean, "mean", zero, `means of variable ${v.variable}, from ${number(h.low)} to ${number(h.high)}`),
    spark(h.sampled, "sampled", zero, `samples of variable ${v.variable}, from ${number(h.low)} to ${number(h.high)}`),
    spark(h.variance, "variance", 0, `posterior variances of variable ${v.variable}, from 0 to ${number(h.top)}`)] : ["", "", ""];
  row.tr = html("tr", { id: `variable-${v.variable}` }, html("td", {}, String(v.variable)), row.type, row.why, sparks.map((drawing) => html("td", {}, drawing)), row.sure,
    ["kl", "ratio_mean", "ratio_variance", "shift", "noise_share"].map((key) => html("td", {}, number(v[key]))),
    row.polarity,
    row.margin,
    withUse ? html("td", { "data-tip": use && use.redrawn !== undefined ? `± ${number(use.permuted_error)}; redrawn from the prior: ${number(use.redrawn)}` : null }, use ? number(use.permuted) : "–") : null);
  return row;
}
function updateRow(j, made) {
  const row = rowOf(j), v = variables[j], key = `${types[j]} ${made}`;
  if (row.key === key) return row;
  row.key = key;
  const flags = [v.doubtful && made ? "doubtful" : null, v.prior_driven ? "prior-driven" : null, v.uninformative && types[j] === "mixed" ? "uninformative" : null].filter(Boolean);
  row.type.replaceChildren(badge(types[j]), flags.length ? html("span", { class: "muted" }, ` ${flags.join(", ")}`) : "");
  row.why.textContent = made ? reasonOf(v) : "–";
  row.tr.classList.toggle("changed", v.type !== types[j]);
  for (const cell of [row.sure, row.margin]) {
    cell.classList.toggle("muted", !made);
    // Confidence and margin are valid only for the threshold at which they were computed.
    cell.dataset.tip = made ? "" : `computed at α = ${model.alpha}, ${model.rule} rule`;
  }
  row.sure.replaceChildren(...(made ? [html("span", { class: "meter", "aria-hidden": "true" }, meter(v.confidence)), percent(v.confidence)] : ["–"]));
  row.margin.textContent = made ? (v.distance_errors < 1000 ? number(v.distance_errors, 2) : "> 999") : "–";
  // The polarity of a variable that is off for every input is only noise.
  row.polarity.textContent = types[j] === "passive" ? "–" : number(v.polarity);
  return row;
}
// Consecutive numbers as ranges: 0–3, 7, 9–12.
function ranges(numbers, longest = 4) {
  const found = [];
  for (const n of numbers) {
    const last = found[found.length - 1];
    if (last && n === last[1] + 1) last[1] = n; else found.push([n, n]);
  }
  return found.slice(0, longest).map(([from, to]) => (from === to ? String(from) : `${from}–${to}`)).join(", ") + (found.length > longest ? ", …" : "");
}
// Variables grouped by type and reason.
function kinds() {
  const found = new Map(), made = asMade();
  variables.forEach((v, j) => {
    if (chosenRows.group && !(j >= chosenRows.group.first && j <= chosenRows.group.last)) return;
    const reason = made ? v.kind : "", key = `${types[j]} ${reason}`;
    if (!found.has(key)) found.set(key, { key, type: types[j], reason, own: [] });
    found.get(key).own.push(j);
  });
  return [...found.values()].sort((a, b) => TYPES.indexOf(a.type) - TYPES.indexOf(b.type) || b.own.length - a.own.length);
}
function drawKinds() {
  const host = find("#kinds");
  host.hidden = variables.length <= DATA.many;
  if (host.hidden) return;
  const span = (own, key) => { const [low, high] = extent(own.map((j) => variables[j][key])); return number(low) === number(high) ? number(low) : `${number(low)} to ${number(high)}`; };
  const head = ["Type", described("why")[1], "Variables", "Which", described("kl")[1], described("ratio_mean")[1], ""];
  find("#kinds-table").replaceChildren(html("caption", { class: "screen-reader" }, "Variables grouped by type and reason"), html("thead", {}, html("tr", {}, head.map((label, i) => html("th", { scope: "col", class: [0, 1, 3].includes(i) ? "left" : null }, label)))),
    html("tbody", {}, kinds().slice(0, 40).map(({ key, type, reason, own }) => html("tr", { class: chosenRows.kind === key ? "changed" : null }, html("td", { class: "left" }, badge(type)), html("td", { class: "left muted why" }, reason || "–"), html("td", {}, own.length.toLocaleString("en")),
      html("td", { class: "left muted" }, ranges(own.map((j) => variables[j].variable))), html("td", {}, span(own, "kl")), html("td", {}, span(own, "ratio_mean")),
      html("td", { class: "controls" }, html("button", { type: "button", "aria-pressed": String(chosenRows.kind === key), onclick: () => { chosenRows.kind = chosenRows.kind === key ? null : key; chosenRows.limit = STEP; drawVariables(); } }, "show"))))));
}
function chosenVariables() {
  const kind = chosenRows.kind && kinds().find(({ key }) => key === chosenRows.kind), allowed = kind ? new Set(kind.own) : null;
  if (!kind) chosenRows.kind = null;
  return [...variables.keys()].filter((j) => chosenRows.types.has(types[j]) && (!allowed || allowed.has(j)) && (!chosenRows.group || (j >= chosenRows.group.first && j <= chosenRows.group.last)));
}
function drawVariables() {
  const made = asMade(), chosen = sorted(chosenVariables(), sortKey(order.key), order.descending), shown = chosen.slice(0, chosenRows.limit);
  find("#variables-table tbody").replaceChildren(...shown.map((j) => updateRow(j, made).tr));
  for (const button of all("#variables-table th button")) button.parentNode.setAttribute("aria-sort", button.dataset.key !== order.key ? "none" : order.descending ? "descending" : "ascending");
  const of = chosenRows.group ? ` of ${chosenRows.group.name}` : "";
  find("#shown").textContent = `${shown.length.toLocaleString("en")} of ${variables.length.toLocaleString("en")} shown${of}${chosen.length > shown.length ? `, ${chosen.length.toLocaleString("en")} chosen` : ""}`;
  find("#more").hidden = shown.length === chosen.length;
  drawKinds();
  hintScroll();
}
function meter(value) {
  const inner = html("i", {});
  inner.style.width = `${Math.round((value || 0) * 100)}%`;
  return inner;
}
// A variable by its number, independent of the filters.
function goTo(number) {
  const j = variables.findIndex((v) => v.variable === number);
  if (j < 0) return;
  Object.assign(chosenRows, { types: new Set(TYPES), group: null, kind: null });
  all("#type-filter button").forEach((button) => button.setAttribute("aria-pressed", "true"));
  const place = sorted([...variables.keys()], sortKey(order.key), order.descending).indexOf(j);
  chosenRows.limit = Math.max(STEP, Math.ceil((place + 1) / STEP) * STEP);
  // Far down a long table, show only the variables of the same kind, not all rows before it.
  if (chosenRows.limit > 20 * STEP) { order.key = "variable"; order.descending = false; chosenRows.kind = kinds().find(({ own }) => own.includes(j)).key; chosenRows.limit = STEP; }
  drawVariables();
  const row = updateRow(j, asMade()).tr;
  if (!row.isConnected) find("#variables-table tbody").prepend(row);
  all("#variables-table tr.target").forEach((other) => other.classList.remove("target"));
  row.classList.add("target");
  row.scrollIntoView({ block: "center" });
}
function setUpVariables() {
  find("#type-filter").replaceChildren(...TYPES.map((type) => html("button", { type: "button", value: type, "aria-pressed": "true", onclick: (event) => {
    const on = !chosenRows.types.has(type);
    if (on) chosenRows.types.add(type); else chosenRows.types.delete(type);
    event.currentTarget.setAttribute("aria-pressed", String(on));
    drawVariables();
  } }, type)));
  find("#more").addEventListener("click", () => { chosenRows.limit += STEP; drawVariables(); });
  find("#go-to").addEventListener("change", (event) => goTo(event.target.valueAsNumber));
}
