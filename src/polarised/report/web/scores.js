// Mean against sampled: paired bars, one small chart per metric, one pair per subset of variables.
// Titles, units and readings come with the data, from the records of the metrics.
const METRICS = DATA.metrics || {};
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const metricName = (name) => capital((METRICS[name] || { title: words(name) }).title);
const metricAxis = (name) => (METRICS[name] && METRICS[name].unit ? `${metricName(name)}, ${METRICS[name].unit}` : metricName(name));
// Known names in their usual order, then the others as given.
const inOrder = (names, known) => [...known.filter((name) => names.includes(name)), ...names.filter((name) => !known.includes(name))];
const SUBSET_ORDER = Object.keys(DATA.subsets);
// The text that fits into a number of pixels in the small font.
const clipped = (text, width) => (text.length * 6.9 > width ? `${text.slice(0, Math.max(3, Math.floor(width / 6.9) - 1))}…` : text);
function pairedBars(host, groups, label, { text = number, top = null } = {}) {
  const width = widthOf(host, 260), row = 40, left = Math.min(150, width * 0.36), right = width - 48;
  const height = groups.length * row + 6, drawing = canvas(host, width, height, label);
  const values = groups.flatMap((group) => REPRESENTATIONS.map((r) => group[r])).filter((v) => v !== null && v !== undefined && Math.abs(v) < HUGE);
  // Next to an infinite value, the finite ones use part of the width, on a scale on which small ones look small.
  const infinite = groups.some((group) => REPRESENTATIONS.some((r) => group[r] > HUGE));
  // A scale below 0.05 would show the noise of the estimates as long bars.
  const low = Math.min(0, ...values), high = top === null ? Math.max(infinite ? 1 : 0.05, ...values) : top;
  const x = scale(low, high, left, infinite ? left + 0.6 * (right - left) : right);
  groups.forEach((group, i) => {
    drawing.append(svg("text", { class: "strong", x: left - 10, y: i * row + row / 2 + 4, "text-anchor": "end" }, clipped(group.name, left - 12)));
    REPRESENTATIONS.forEach((r, k) => {
      const value = group[r], y = i * row + 5 + k * 15;
      if (value === null || value === undefined) return;
      const end = value > HUGE ? right : x(value), from = x(0);
      drawing.append(svg("g", { "data-tip": `${group.name}\n${r} representation: ${text(value)}` },
        svg("rect", { class: `bar of-${r}`, x: Math.min(from, end), y, width: Math.max(1.2, Math.abs(end - from)), height: 13, rx: 2 }),
        value > HUGE ? svg("path", { class: "break", d: `M${end - 20} ${y + 15}l5 -17M${end - 14} ${y + 15}l5 -17` }) : null,
        svg("text", { x: Math.max(from, end) + 6, y: y + 10.5 }, text(value))));
    });
  });
  drawing.append(svg("line", { class: "axis-line", x1: x(0), x2: x(0), y1: 0, y2: height - 4 }));
}
function legend() {
  return html("ul", { class: "legend" }, REPRESENTATIONS.map((r) => html("li", {}, svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("rect", { class: `bar of-${r}`, x: 1, y: 0, width: 20, height: 12, rx: 2 })),
    LOOKS.representations[r].title)));
}
function grouped(rows, names) {
  return names.map((name) => ({ name: subset(name), ...Object.fromEntries(rows.filter((row) => row.variables === name).map((row) => [row.representation, row.value])) }));
}
// Binning gives independent variables some information; with few inputs, too much for a single number.
const floorNote = (floor) => (floor < 0.5 ? ` Here independent variables show about ${number(floor, 2)}.` : " With so few inputs it is far above 0 even for independent variables.");
function drawScores() {
  const rows = records(model.scores), metrics = inOrder(unique(rows.map((row) => row.metric)), Object.keys(METRICS));
  const panels = metrics.map((metric) => {
    const own = rows.filter((row) => row.metric === metric && row.value !== null), names = inOrder(unique(own.map((row) => row.variables)), SUBSET_ORDER);
    const chart = html("div", {}), reading = (METRICS[metric] || {}).reading || " ";
    return [html("div", { class: "panel", "data-metric": metric }, html("h3", {}, metricAxis(metric)), html("p", { class: "note under" }, reading + (metric === "mutual_information" ? floorNote(model.information_floor) : "")), chart), chart, grouped(own, names), metricName(metric)];
  }).filter(([, , groups]) => groups.length);
  find("#scores-charts").replaceChildren(...panels.map(([panel]) => panel));
  find("#scores-legend").replaceChildren(legend());
  for (const [, chart, groups, name] of panels) pairedBars(chart, groups, `${name} of mean and sampled representation by subset`);
  find("#scores").hidden = !panels.length;
}
function drawDownstream() {
  const section = find("#downstream"), rows = records(model.downstream);
  section.hidden = !rows.length;
  if (section.hidden) return;
  const factors = unique(rows.map((row) => row.factor)), choice = find("#factor");
  const chosen = factors.includes(choice.value) ? choice.value : "";
  choice.replaceChildren(html("option", { value: "" }, "mean over factors"), ...factors.map((factor) => html("option", { value: factor }, words(factor))));
  choice.value = chosen;
  const own = rows.filter((row) => (chosen === "" || row.factor === chosen) && row.accuracy !== null);
  const names = inOrder(unique(own.map((row) => row.variables)), SUBSET_ORDER);
  const groups = names.map((name) => ({ name: subset(name), ...Object.fromEntries(REPRESENTATIONS.map((r) => [r, own.filter((row) => row.variables === name && row.representation === r).map((row) => row.accuracy)]).filter(([, values]) => values.length).map(([r, values]) => [r, mean(values)])) }));
  find("#downstream-legend").replaceChildren(legend());
  pairedBars(find("#downstream-chart"), groups, "Accuracy of predicting factors from each subset of variables", { text: percent, top: 1 });
}
