// The page of a study: filters choose runs; every chart shows the chosen ones, and a point is a mean over seeds.
const EACH = "*";
const FILTERS = ["method", "dataset", "seed"];
const chosen = Object.fromEntries(FILTERS.map((name) => [name, new Set(DATA.runs.map((run) => run[name]))]));
const rules = unique(DATA.measurements.map((m) => m.rule).filter((rule) => rule !== null));
let rule = ["used", "relative"].find((name) => rules.includes(name)) || rules[0] || null;
const column = (metric, representation, variables) => DATA.measurements.findIndex((m) => m.metric === metric && (m.representation || null) === representation && m.variables === variables && (m.rule === null || m.rule === rule));
const kept = () => DATA.runs.map((run, i) => ({ ...run, i })).filter((run) => FILTERS.every((name) => chosen[name].has(run[name])));
const byStrength = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
// The method of a label is the longest one that it ends in: "annealed VAE" is not "VAE".
const byLength = Object.keys(DATA.strengths).sort((a, b) => b.length - a.length);
const strengthName = (label) => DATA.strengths[byLength.find((method) => label.includes(method))] || "strength";
const strengthText = (value) => (value === null ? "–" : typeof value === "number" ? brief(value) : String(value));

// Mean, two standard errors and number of runs at each strength.
function curve(runs, index) {
  return unique(runs.map((run) => run.strength)).sort(byStrength).map((strength) => {
    const values = runs.filter((run) => run.strength === strength).map((run) => DATA.values[run.i][index]).filter((v) => v !== null && Math.abs(v) < HUGE);
    if (!values.length) return { strength, n: 0, value: null, error: 0 };
    const value = mean(values), deviation = values.length > 1 ? Math.sqrt(values.reduce((s, v) => s + (v - value) ** 2, 0) / (values.length - 1)) : 0;
    return { strength, n: values.length, value, error: (2 * deviation) / Math.sqrt(values.length) };
  });
}
function panels(host, draw) {
  const runs = kept(), groups = unique(runs.map((run) => `${run.method}\u0000${run.dataset}`)).map((key) => runs.filter((run) => `${run.method}\u0000${run.dataset}` === key));
  const several = unique(runs.map((run) => run.dataset)).length > 1;
  const hosts = groups.map((group) => [group, html("div", {}), several ? `${group[0].method}, ${group[0].dataset}` : group[0].method]);
  host.replaceChildren(...hosts.map(([, inner, name]) => html("div", { class: "panel" }, html("h3", {}, String(name)), inner)));
  for (const [group, inner, name] of hosts) draw(inner, group, name);
  if (!groups.length) host.replaceChildren(html("p", { class: "muted" }, "No run is chosen."));
}
function frameFor(inner, points, top, label, yLabel, low = 0, under = 0) {
  const width = widthOf(inner, 240), height = 240 + under, box = { left: 44, right: width - 8, top: 24, bottom: 200 }, drawing = canvas(inner, width, height, label);
  const pitch = (box.right - box.left) / points.length, x = (i) => box.left + (i + 0.5) * pitch, y = scale(low, top || 1, box.bottom, box.top);
  axes(drawing, box, x, y, points.map((_, i) => i), ticks(low, top || 1, 4), { xText: (i) => strengthText(points[i].strength), xLabel: strengthName(label), yLabel, under });
  return { drawing, box, pitch, x, y };
}
function drawTypes() {
  const indices = TYPES.map((type) => column("count", null, type));
  find("#types").hidden = indices.some((i) => i < 0);
  if (find("#types").hidden) return;
  find("#types-legend").replaceChildren(...TYPES.map((type) => html("li", { class: type }, svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("rect", { class: `lane ${type}`, width: 22, height: 12 })), `${type} (${type[0].toUpperCase()})`)));
  panels(find("#types-charts"), (inner, runs, name) => {
    const curves = indices.map((i) => curve(runs, i)), top = Math.max(...curves[0].map((_, i) => curves.reduce((sum, c) => sum + (c[i].value || 0), 0)));
    const { drawing, pitch, x, y } = frameFor(inner, curves[0], top, `Types of variables against strength, ${name}`, "variables");
    curves[0].forEach((point, i) => {
      let base = 0;
      TYPES.forEach((type, t) => {
        const value = curves[t][i].value || 0, high = y(base) - y(base + value);
        drawing.append(svg("g", { class: type, "data-tip": `strength ${strengthText(point.strength)}: ${number(value)} ${type}\n${point.n} runs` }, svg("rect", { class: `lane ${type}`, x: x(i) - Math.min(45, pitch * 0.34), y: y(base + value), width: Math.min(90, pitch * 0.68), height: Math.max(0, high - 1) })));
        if (high > 15 && pitch > 22) drawing.append(svg("text", { x: x(i), y: y(base + value / 2) + 4, "text-anchor": "middle", class: `on-${type}` }, type[0].toUpperCase()));
        base += value;
      });
    });
  });
}
const lowest = (points) => Math.min(0, ...points.map((p) => p.value - p.error));
// A type keeps its colour.
const subsetLook = (name, i) => (TYPES.includes(name) || name === "full" ? { ...look(i), colour: name === "full" ? "var(--ink)" : `var(--${name})` } : look(i));
// One line with its band over strengths.
function bandLine(group, points, x, y, dash, mark, tipOf) {
  const seen = points.map((p, i) => ({ ...p, i })).filter((p) => p.value !== null);
  const edge = (sign, list) => list.map((p) => `${x(p.i).toFixed(1)} ${y(p.value + sign * p.error).toFixed(1)}`).join("L");
  if (!seen.length) return;
  group.append(svg("path", { class: "band", d: `M${edge(1, seen)}L${edge(-1, [...seen].reverse())}Z` }), svg("path", { class: "line", d: `M${seen.map((p) => `${x(p.i).toFixed(1)} ${y(p.value).toFixed(1)}`).join("L")}`, "stroke-dasharray": dash || null }));
  for (const p of seen) group.append(marker(mark, x(p.i), y(p.value), 3.6, { "data-tip": `${tipOf}\nstrength ${strengthText(p.strength)}: ${number(p.value)} ± ${number(p.error)}\n${p.n} runs` }));
}
const key = (kind, colour, dash, mark, text) => {
  const item = html("li", { class: kind }, svg("svg", { viewBox: "0 0 30 12", "aria-hidden": "true" }, svg("path", { class: "line", d: "M0 6H30", "stroke-dasharray": dash || null }), marker(mark, 15, 6)), text);
  if (colour) item.style.setProperty("--own", colour);
  return item;
};
// One line per subset of variables, one panel per method and representation.
function drawSubsets(metric) {
  const names = inOrder(unique(DATA.measurements.filter((m) => m.metric === metric).map((m) => m.variables)), SUBSET_ORDER);
  find("#metrics-legend").replaceChildren(html("ul", { class: "legend" }, names.map((name, i) => key("", subsetLook(name, i).colour, look(i).dash, look(i).marker, subset(name)))));
  const charts = [];
  panels(find("#metrics-charts"), (inner, runs, name) => {
    for (const r of REPRESENTATIONS) {
      const lines = names.map((variables) => column(metric, r, variables)).map((i) => (i < 0 ? null : curve(runs, i))), finite = lines.flatMap((line) => line || []).filter((p) => p.value !== null);
      if (!finite.length) continue;
      const host = html("div", {});
      inner.append(html("p", { class: "note" }, `${r} representation`), host);
      charts.push(() => {
        const { drawing, x, y } = frameFor(host, lines.find((line) => line), Math.max(1e-9, ...finite.map((p) => p.value + p.error)) * 1.05, `${metricName(metric)} of the ${r} representation by subset, ${name}`, null, lowest(finite));
        lines.forEach((line, i) => {
          if (!line) return;
          const group = svg("g", {});
          group.style.setProperty("--own", subsetLook(names[i], i).colour);
          bandLine(group, line, x, y, look(i).dash, look(i).marker, subset(names[i]));
          drawing.append(group);
        });
      });
    }
  });
  charts.forEach((chart) => chart());
}
function drawMetrics() {
  const metric = find("#metric").value, variables = find("#subset").value;
  if (variables === EACH) return drawSubsets(metric);
  const passive = column("count", null, "passive");
  find("#metrics-legend").replaceChildren(html("ul", { class: "legend" }, REPRESENTATIONS.map((r) => key(`of-${r}`, null, LOOKS.representations[r].dash, LOOKS.representations[r].marker, `${r} representation`)),
    passive >= 0 ? html("li", { class: "passive" }, svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("rect", { class: "lane passive", width: 22, height: 12 })), "passive variables (their number below the strength)") : null, html("li", {}, "bands: two standard errors over seeds")));
  panels(find("#metrics-charts"), (inner, runs, name) => {
    const series = [...REPRESENTATIONS, null].map((r) => [r, column(metric, r, variables)]).filter(([, i]) => i >= 0).map(([r, i]) => [r, curve(runs, i)]);
    const finite = series.flatMap(([, c]) => c).filter((p) => p.value !== null);
    if (!finite.length) return inner.replaceChildren(html("p", { class: "note" }, "not measured here"));
    const top = Math.max(1e-9, ...finite.map((p) => p.value + p.error)) * 1.05, points = series[0][1];
    const { drawing, pitch, x, y, box } = frameFor(inner, points, top, `${metricName(metric)} against strength, ${name}`, null, lowest(finite), passive >= 0 ? 16 : 0);
    if (passive >= 0) {
      const counts = curve(runs, passive), most = Math.max(1, ...curve(DATA.runs.map((run, i) => ({ ...run, i })), passive).map((p) => p.value || 0)) * 1.6;
      counts.forEach((p, i) => {
        if (p.value === null) return;
        const high = (p.value / most) * (box.bottom - box.top);
        drawing.append(svg("rect", { class: "lane passive", x: x(i) - Math.min(40, pitch * 0.3), y: box.bottom - high, width: Math.min(80, pitch * 0.6), height: high, opacity: 0.75, "data-tip": `${number(p.value)} passive on average` }), svg("g", { class: "passive" }, svg("text", { class: "tag", x: x(i), y: box.bottom + 31, "text-anchor": "middle" }, number(p.value, 2))));
      });
    }
    for (const [r, own] of series) {
      const group = svg("g", { class: r ? `of-${r}` : "passive" });
      bandLine(group, own, x, y, r ? LOOKS.representations[r].dash : "", r ? LOOKS.representations[r].marker : "o", `${r || ""} ${metricName(metric)}`);
      drawing.append(group);
    }
  });
}
const axisName = (m) => [metricAxis(m.metric), m.representation, m.variables && m.variables !== "full" ? subset(m.variables) : null].filter(Boolean).join(", ");
function drawScatter() {
  const [a, b] = ["#across", "#up"].map((id) => Number(find(id).value)), runs = kept(), host = find("#scatter-chart");
  const points = runs.map((run) => ({ run, u: DATA.values[run.i][a], v: DATA.values[run.i][b] })).filter((p) => p.u !== null && p.v !== null && Math.abs(p.u) < HUGE && Math.abs(p.v) < HUGE);
  if (!points.length) return host.replaceChildren(html("p", { class: "note" }, "No run has both."));
  const width = widthOf(host), height = Math.min(460, Math.max(280, width * 0.45)), box = { left: 52, right: width - 12, top: 26, bottom: height - 42 };
  const pad = ([low, high]) => [low - (high - low || 1) * 0.04, high + (high - low || 1) * 0.04], [left, right] = pad(extent(points.map((p) => p.u))), [low, high] = pad(extent(points.map((p) => p.v)));
  const x = scale(left, right, box.left, box.right), y = scale(low, high, box.bottom, box.top), drawing = canvas(host, width, height, `${axisName(DATA.measurements[b])} against ${axisName(DATA.measurements[a])}`);
  axes(drawing, box, x, y, ticks(left, right, 7), ticks(low, high, 5), { xLabel: axisName(DATA.measurements[a]), yLabel: axisName(DATA.measurements[b]) });
  const methods = unique(DATA.runs.map((run) => run.method));
  for (const p of points) {
    const k = methods.indexOf(p.run.method), dot = marker(look(k).marker, x(p.u), y(p.v), 3.8, { "data-tip": `${p.run.method}, strength ${strengthText(p.run.strength)}, seed ${p.run.seed}\n${number(p.u)} and ${number(p.v)}` });
    dot.style.fill = look(k).colour;
    drawing.append(dot);
  }
  find("#scatter-legend").replaceChildren(...methods.map((name, k) => { const m = marker(look(k).marker, 11, 6, 4.4); m.style.fill = look(k).colour; return html("li", {}, svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, m), String(name)); }));
}
function meansTable() {
  const runs = kept(), rows = [];
  for (const key of unique(runs.map((run) => JSON.stringify([run.method, run.dataset, run.strength])))) {
    const [method, dataset, strength] = JSON.parse(key), group = runs.filter((run) => run.method === method && run.dataset === dataset && run.strength === strength);
    DATA.measurements.forEach((m, i) => {
      if (m.rule !== null && m.rule !== rule) return;
      const [point] = curve(group, i);
      if (point && point.n) rows.push([method, dataset, strength, m.metric, m.representation, m.variables, point.value, point.error / 2, point.n]);
    });
  }
  return { columns: ["method", "dataset", "strength", "metric", "representation", "variables", "mean", "standard_error", "runs"], rows };
}
const rawTable = () => ({ columns: ["run", "seed", "method", "strength", "dataset", "rule", "metric", "representation", "variables", "value"],
  rows: kept().flatMap((run) => DATA.measurements.map((m, i) => [run.run, run.seed, run.method, run.strength, run.dataset, m.rule, m.metric, m.representation, m.variables, DATA.values[run.i][i]]).filter((row) => row[9] !== null)) });
const sorting = { learning: { key: 0, descending: false }, shares: { key: -1, descending: false }, means: { key: 0, descending: false }, runs: { key: 0, descending: false } };
function fill(table, name, { columns, rows }, draw, cell = (value) => (typeof value === "number" ? number(value) : value === null ? "–" : String(value))) {
  const own = sorting[name], text = (i) => rows.some((row) => typeof row[i] === "string");
  const head = columns.map((label, i) => html("th", { scope: "col", class: text(i) ? "left" : null, "aria-sort": own.key === i ? (own.descending ? "descending" : "ascending") : "none" }, html("button", { type: "button", onclick: () => { own.descending = own.key === i && !own.descending; own.key = i; draw(); } }, words(label))));
  table.replaceChildren(html("thead", {}, html("tr", {}, head)), html("tbody", {}, sorted(rows, (row) => row[own.key], own.descending).slice(0, 400).map((row) => html("tr", {}, row.map((value, i) => html("td", { class: text(i) ? "left" : null }, cell(value, i, row)))))));
}
function drawTables() {
  const metric = find("#metric").value, means = meansTable(), own = { ...means, rows: means.rows.filter((row) => row[3] === metric) };
  fill(find("#means-table"), "means", own, drawTables);
  find("#means-cut").textContent = `${metricName(metric)}, means over seeds: ${Math.min(400, own.rows.length)} of ${own.rows.length} rows. The files contain every metric.`;
  const runs = kept();
  fill(find("#runs-table"), "runs", { columns: ["run", "method", "strength", "dataset", "seed"], rows: runs.map((run) => [run.run, run.method, run.strength, run.dataset, run.seed]) }, drawTables,
    (value, i, row) => { const link = i === 0 ? (runs.find((run) => run.run === row[0]) || {}).link : null; return link ? html("a", { href: link }, String(value)) : typeof value === "number" ? brief(value) : value === null ? "–" : String(value); });
}
// Verdicts on one claim are grouped, one per method; their evidence opens below.
const verdictsShown = new Set(Object.keys(LOOKS.verdicts).filter((name) => name !== "not testable"));
const verdictBadge = (v, text) => html("span", { class: `chip verdict-${v.verdict.split(" ")[0]}`, "data-tip": `${v.verdict}: ${v.evidence}` }, `${LOOKS.verdicts[v.verdict]} ${text}`);
function drawClaims() {
  const words = Object.keys(LOOKS.verdicts), methods = unique(DATA.verdicts.map((v) => v.method)), several = methods.some(Boolean), datasets = unique(DATA.runs.map((run) => run.dataset)).length;
  const counts = (own) => words.map((word) => own.filter((v) => v.verdict === word).length);
  find("#claim-methods").replaceChildren(html("thead", {}, html("tr", {}, html("th", { scope: "col", class: "left" }, several ? "Method" : ""), words.map((word) => html("th", { scope: "col" }, `${LOOKS.verdicts[word]} ${word}`)))),
    html("tbody", {}, methods.map((method) => html("tr", {}, html("th", { scope: "row", class: "left" }, method || (several ? "other claims" : "all claims")), counts(DATA.verdicts.filter((v) => v.method === method)).map((n) => html("td", { class: n ? null : "muted" }, String(n)))))));
  find("#claim-filter").replaceChildren(...words.map((word, i) => html("button", { type: "button", value: word, "aria-pressed": String(verdictsShown.has(word)), onclick: () => { if (verdictsShown.has(word)) verdictsShown.delete(word); else verdictsShown.add(word); drawClaims(); } }, `${LOOKS.verdicts[word]} ${word} (${counts(DATA.verdicts)[i]})`)));
  const claims = new Map();
  for (const v of DATA.verdicts.filter((own) => verdictsShown.has(own.verdict))) claims.set(`${v.name} ${v.claim}`, [...(claims.get(`${v.name} ${v.claim}`) || []), v]);
  find("#claims-table").replaceChildren(html("thead", {}, html("tr", {}, ["Claim", "Verdicts"].map((label) => html("th", { scope: "col", class: "left" }, label)))),
    html("tbody", {}, [...claims.values()].map((own) => html("tr", {}, html("td", { class: "wrap claim" }, own[0].claim, own[0].name ? html("span", { class: "muted" }, ` ${own[0].name}`) : null),
      html("td", { class: "wrap" }, html("div", { class: "chips" }, own.map((v) => verdictBadge(v, [v.method, datasets > 1 ? v.dataset : ""].filter(Boolean).join(", ") || v.verdict))),
        html("details", { class: "evidence" }, html("summary", {}, "evidence"), html("ul", {}, own.map((v) => html("li", {}, html("b", {}, `${[v.method, v.verdict].filter(Boolean).join(": ")}. `), v.evidence)))))))));
  hintScroll();
}
function draw() {
  const runs = kept();
  find("#chosen").textContent = `${runs.length} of ${DATA.runs.length} runs`;
  drawTypes();
  drawMetrics();
  drawScatter();
  drawLearning();
  drawTables();
  hintScroll();
}
function setUp() {
  const count = (name) => unique(DATA.runs.map((run) => run[name])).length, plural = counted;
  find("#scope").textContent = `${plural(count("method"), "method")}, ${plural(Math.max(...unique(DATA.runs.map((run) => run.method)).map((m) => unique(DATA.runs.filter((run) => run.method === m).map((run) => run.strength)).length)), "strength")} each, ${plural(count("seed"), "seed")}, ${plural(count("dataset"), "dataset")}.`;
  const sets = FILTERS.map((name) => {
    const values = unique(DATA.runs.map((run) => run[name])).sort(byStrength);
    if (values.length > 14) {
      const choice = html("select", { "aria-label": words(name), "data-filter": name }, html("option", { value: "" }, `all ${values.length}`), values.map((value, i) => html("option", { value: i }, String(value))));
      choice.addEventListener("change", () => { chosen[name] = new Set(choice.value === "" ? values : [values[Number(choice.value)]]); draw(); });
      return html("fieldset", {}, html("legend", {}, words(name)), choice);
    }
    const toggles = values.map((value) => html("button", { type: "button", "aria-pressed": "true", "data-filter": name, value: String(value), onclick: (event) => {
      const on = !chosen[name].has(value);
      if (on) chosen[name].add(value); else chosen[name].delete(value);
      event.currentTarget.setAttribute("aria-pressed", String(on));
      draw();
    } }, String(value)));
    const every = html("button", { type: "button", onclick: () => { const on = chosen[name].size < values.length; chosen[name] = new Set(on ? values : []); toggles.forEach((b) => b.setAttribute("aria-pressed", String(on))); draw(); } }, "all / none");
    return html("fieldset", {}, html("legend", {}, words(name)), html("div", { class: "chips" }, toggles, values.length > 2 ? every : null));
  });
  if (rules.length > 1) {
    const buttons = rules.map((name) => html("button", { type: "button", value: name, "aria-pressed": String(name === rule), onclick: (event) => { rule = name; pressed(buttons, event.currentTarget); draw(); } }, `${name} rule`));
    sets.push(html("fieldset", {}, html("legend", {}, "types by"), html("div", { class: "segments" }, buttons)));
  }
  find("#filters").replaceChildren(...sets);
  const metrics = inOrder(unique(DATA.measurements.map((m) => m.metric)).filter((m) => m !== "count"), Object.keys(METRICS));
  find("#metric").replaceChildren(...metrics.map((m) => html("option", { value: m }, metricAxis(m))));
  const offer = () => {
    const names = inOrder(unique(DATA.measurements.filter((m) => m.metric === find("#metric").value).map((m) => m.variables)), SUBSET_ORDER), before = find("#subset").value;
    find("#subset").replaceChildren(...names.map((name) => html("option", { value: name }, subset(name))), ...(names.length > 1 ? [html("option", { value: EACH }, "each subset")] : []));
    if (names.includes(before) || (before === EACH && names.length > 1)) find("#subset").value = before;
  };
  offer();
  find("#metric").addEventListener("change", () => { offer(); drawMetrics(); drawTables(); });
  find("#subset").addEventListener("change", drawMetrics);
  // Scores of the whole mean code first, counts last.
  const first = (m) => (m.metric === "count" ? 4 : 0) + (m.representation === "sampled" ? 2 : 0) + (m.variables === "full" ? 0 : 1);
  const options = () => DATA.measurements.map((m, i) => [m, i]).filter(([m]) => m.rule === null || m.rule === rule).sort(([a], [b]) => first(a) - first(b)).map(([m, i]) => html("option", { value: i }, axisName(m)));
  for (const [id, fallback] of [["#across", 1], ["#up", 0]]) {
    find(id).replaceChildren(...options());
    find(id).selectedIndex = Math.min(fallback, find(id).options.length - 1);
    find(id).addEventListener("change", drawScatter);
  }
  find("#downloads").replaceChildren(downloadButton("study_means", "means", meansTable), downloadButton("study_runs", "runs", rawTable), ...(DATA.verdicts.length ? [downloadButton("study_verdicts", "verdicts", () => ({ columns: ["name", "claim", "method", "dataset", "verdict", "evidence"], rows: DATA.verdicts.map((v) => [v.name, v.claim, v.method, v.dataset, v.verdict, v.evidence]) }))] : []));
}
setUp();
setUpLearning();
if (DATA.verdicts.length) drawClaims();
draw();
navigate();
redraws.push(draw);
