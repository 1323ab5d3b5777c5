// The page of one or several models: the picker chooses the model of the sections below.
for (const own of DATA.models) {
  own.use = new Map(records(own.decoder_use).map((row) => [row.variable, row]));
  own.list = records(own.variables).map((v) => ({ ...v, kind: kindOf(v) }));
  own.histogram = new Map(own.histograms.map((histogram) => [histogram.variable, histogram]));
}
// Nested settings become one row for each value, named by its path.
function leaves(value, path = []) {
  const nested = value !== null && typeof value === "object" && !(Array.isArray(value) && value.every((item) => item === null || typeof item !== "object"));
  if (nested && Object.keys(value).length) return Object.entries(value).flatMap(([key, item]) => leaves(item, [...path, words(key)]));
  const say = (item) => (typeof item === "number" && !Number.isInteger(item) ? brief(item) : String(item));
  const text = value === null ? "–" : Array.isArray(value) ? value.map(say).join(", ") || "–" : typeof value === "object" ? "–" : say(value);
  return [[path.join(" › "), text]];
}
// A text of several lines, such as BibTeX, is shown verbatim when its name is opened.
function facts(value) {
  const [long, brief] = [true, false].map((lines) => leaves(value).filter(([, text]) => text.trim().includes("\n") === lines));
  return [html("dl", { class: "facts" }, brief.map(([key, text]) => html("div", {}, html("dt", {}, key), html("dd", {}, text)))),
    ...long.map(([key, text]) => html("details", {}, html("summary", {}, key), html("pre", {}, html("code", {}, text.trim()))))];
}
function drawOtherRules() {
  const rows = records(model.other_rules), names = rows.length ? model.other_rules.columns.filter((name) => name !== "variable") : [];
  find("#others").hidden = !names.length;
  find("#others-list").replaceChildren(...names.map((name) => {
    const used = rows.filter((row) => row[name]).map((row) => row.variable);
    return html("div", { "data-tip": used.length ? `variables ${used.slice(0, 40).join(", ")}${used.length > 40 ? ", …" : ""}` : "none" }, html("dt", {}, DATA.other_rules[name] || words(name)), html("dd", {}, `${used.length} of ${rows.length}`));
  }));
}
function correlationTable(kind) {
  const names = model.correlations.variables;
  return { columns: ["variable", ...names.map(String)], rows: names.map((name, i) => [name, ...model.correlations[kind][i]]) };
}
function histogramTable() {
  const rows = model.histograms.flatMap((h) => ["mean", "sampled", "variance"].flatMap((kind) => {
    const [low, high] = kind === "variance" ? [0, h.top] : [h.low, h.high], step = (high - low) / h[kind].length;
    return h[kind].map((count, i) => [h.variable, kind, low + i * step, low + (i + 1) * step, count]);
  }));
  return { columns: ["variable", "of", "from", "to", "count"], rows };
}
function dynamicsTable() {
  return { columns: ["step", "variable", "type", "kl"], rows: model.dynamics.steps.flatMap((step, t) => model.dynamics.variables.map((j, i) => [step, j, KINDS[model.dynamics.types[t][i]], model.dynamics.kl[t][i]])) };
}
function drawProvenance() {
  const { command, ...rest } = model.provenance;
  find("#command").replaceChildren(command ? html("pre", {}, html("code", {}, String(command))) : "");
  find("#facts").replaceChildren(...facts(rest));
  const tables = [["variables", () => ({ columns: [...model.variables.columns, "type_here"], rows: rowsOf(model.variables).map((row, j) => [...row, types[j]]) })], ["scores", () => model.scores],
    ["correlations_mean", () => correlationTable("mean")], ["correlations_sampled", () => correlationTable("sampled")], ["histograms", histogramTable],
    ["downstream", model.downstream && (() => model.downstream)], ["other_rules", model.other_rules && (() => model.other_rules)], ["decoder_use", model.decoder_use && (() => model.decoder_use)], ["training", model.history && (() => model.history)], ["dynamics", model.dynamics && dynamicsTable]];
  find("#downloads").replaceChildren(...tables.filter(([, make]) => make).map(([label, make]) => downloadButton(`${model.name}_${label}`, label, make)));
}
function show(index) {
  state.index = index;
  model = DATA.models[index];
  variables = model.list;
  state.alpha = model.alpha;
  state.rule = model.rule;
  all(".model-name").forEach((element) => { element.textContent = model.name; });
  find("#headline").textContent = model.headline;
  const positions = model.rows > model.inputs ? ` × ${number(model.rows / model.inputs)} positions (axis 1 is the variable)` : "";
  find("#rows").textContent = `${model.inputs.toLocaleString("en")} inputs${positions} · ${counted(variables.length, "latent variable")} · ${model.learned_prior ? "given prior" : "prior N(0, I)"}`;
  find("#advice").replaceChildren(...model.advice.map((line) => html("li", {}, line.length > 360 ? html("details", { class: "plain" }, html("summary", {}, `${line.slice(0, line.lastIndexOf(" ", 240))} …`), line) : line)));
  const picker = all("#picker button");
  if (picker.length) pressed(picker, picker[index]);
  types = null;
  buildWalks();
  buildVariables();
  showAlpha();
  retype();
  drawScores();
  drawDownstream();
  drawForecast();
  drawHistory();
  drawProvenance();
  drawOtherRules();
  navigate();
}
// Short names of models: without the common prefix.
function distinct(names) {
  const parts = names.map((name) => String(name).split(/(?<=[-_ /])/));
  let shared = 0;
  while (names.length > 1 && parts.every((own) => own.length > shared + 1 && own[shared] === parts[0][shared])) shared++;
  return parts.map((own) => (shared ? "…" : "") + own.slice(shared).join(""));
}
// Overview of several models.
function drawComparison() {
  const host = find("#compare-table");
  if (!host) return;
  const typed = DATA.models.map((own) => own.list.map((v) => v.type));
  const metrics = inOrder(unique(DATA.models.flatMap((own) => records(own.scores).filter((row) => row.variables === "full").map((row) => row.metric))), Object.keys(METRICS));
  const value = (own, metric, r) => (records(own.scores).find((row) => row.metric === metric && row.representation === r && row.variables === "full") || {}).value;
  host.replaceChildren(html("thead", {}, html("tr", {}, html("th", { scope: "col", class: "left" }, "Model"), TYPES.map((type) => html("th", { scope: "col" }, badge(type))), html("th", { scope: "col" }, "KL, nats"), metrics.map((metric) => html("th", { scope: "col" }, `${metricName(metric)}, μ / z`)))),
    html("tbody", {}, DATA.models.map((own, i) => html("tr", {}, html("th", { scope: "row", class: "left name" }, own.name), TYPES.map((type) => html("td", {}, String(typed[i].filter((t) => t === type).length))), html("td", {}, number(own.list.reduce((sum, v) => sum + v.kl, 0))), metrics.map((metric) => html("td", {}, `${number(value(own, metric, "mean"))} / ${number(value(own, metric, "sampled"))}`))))));
  const spectra = DATA.models.map(() => html("div", {}));
  find("#compare-spectra").replaceChildren(...DATA.models.map((own, i) => html("div", { class: "panel" }, html("h3", {}, own.name), spectra[i])));
  DATA.models.forEach((own, i) => {
    const items = own.list.map((v) => ({ ...v, own: v.type })).sort((a, b) => TYPES.indexOf(a.own) - TYPES.indexOf(b.own) || b.kl - a.kl);
    spectrum(spectra[i], items, `Information of each variable of ${own.name}`);
  });
  const charts = metrics.map(() => html("div", {})), names = distinct(DATA.models.map((own) => own.name));
  find("#compare-scores").replaceChildren(...metrics.map((metric, i) => html("div", { class: "panel" }, html("h3", {}, metricName(metric)), charts[i])));
  find("#compare-legend").replaceChildren(legend());
  metrics.forEach((metric, i) => pairedBars(charts[i], DATA.models.map((own, k) => ({ name: names[k], mean: value(own, metric, "mean"), sampled: value(own, metric, "sampled") })), `${metricName(metric)} of each model`));
}

always.push(drawVerdict, drawMap, drawFlips, drawVariables);
onChange.push(drawGroups, drawCorrelations, drawWalks, drawDynamics);
setUpAlpha();
setUpVariables();
setUpCorrelations();
setUpWalks();
find("#factor").addEventListener("change", drawDownstream);
const picker = find("#picker");
if (picker) picker.replaceChildren(...DATA.models.map((own, i) => html("button", { type: "button", "aria-pressed": "false", onclick: () => show(i) }, own.name)));
show(0);
drawComparison();
redraws.push(drawVerdict, drawGroups, drawMap, drawScores, drawCorrelations, drawDownstream, drawForecast, drawHistory, drawDynamics, drawComparison);
hintScroll();
