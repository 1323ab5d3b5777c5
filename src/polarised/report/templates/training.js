// Training: every named term of the loss, then the type and information of each variable over time.
function lines(host, series, label, { xLabel = "step", yLabel = "", height = 220, legend: own = null } = {}) {
  const width = widthOf(host, 260), box = { left: 50, right: width - 10, top: 24, bottom: height - 38 };
  const usable = series.map((s) => ({ ...s, points: s.points.filter(([, v]) => v !== null && Math.abs(v) < HUGE) })).filter((s) => s.points.length);
  if (!usable.length) return host.replaceChildren(html("p", { class: "note" }, "nothing to draw"));
  const xs = usable.flatMap((s) => s.points.map((p) => p[0])), ys = usable.flatMap((s) => s.points.map((p) => p[1])).sort((a, b) => a - b);
  // The first steps may be hundreds of times the rest: the axis follows 99 of 100 points.
  const [left, right] = extent(xs), low = Math.min(0, ys[0]) === 0 && ys[0] < ys[ys.length - 1] * 0.5 ? 0 : ys[0];
  const cut = ys.length > 50 ? ys[Math.floor(ys.length * 0.985)] : ys[ys.length - 1], high = ys[ys.length - 1] > cut + (cut - low) ? cut + 0.15 * (cut - low) : ys[ys.length - 1];
  const x = scale(left, right, box.left, box.right), y = scale(low, high === low ? low + 1 : high, box.bottom, box.top), drawing = canvas(host, width, height, label);
  axes(drawing, box, x, y, ticks(left, right, Math.max(2, Math.floor(width / 110))), ticks(low, high, 4), { xLabel, yLabel });
  usable.forEach((s) => {
    const path = s.points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${Math.max(box.top - 8, y(b)).toFixed(1)}`).join("");
    const line = svg("path", { class: `line ${s.kind || ""}`, d: path, "stroke-dasharray": s.dash || null });
    if (s.colour) line.style.stroke = s.colour;
    drawing.append(line);
  });
  const hair = svg("line", { class: "axis-line", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const pane = svg("rect", { x: box.left, y: box.top - 8, width: box.right - box.left, height: box.bottom - box.top + 8, fill: "transparent" });
  pane.addEventListener("pointermove", (event) => {
    const area = drawing.getBoundingClientRect(), at = left + ((event.clientX - area.left) * (width / area.width) - box.left) / (box.right - box.left) * (right - left);
    const near = (points) => points.reduce((best, p) => (Math.abs(p[0] - at) < Math.abs(best[0] - at) ? p : best));
    const step = near(usable[0].points)[0];
    hair.setAttribute("x1", x(step)); hair.setAttribute("x2", x(step)); hair.setAttribute("visibility", "visible");
    pane.dataset.tip = [`${xLabel} ${number(step)}`, ...usable.slice(0, 14).map((s) => `${s.name}: ${number(near(s.points)[1], 4)}`)].join("\n");
  });
  pane.addEventListener("pointerleave", () => hair.setAttribute("visibility", "hidden"));
  drawing.append(hair, pane);
}
function drawHistory() {
  const section = find("#training"), table = model.history;
  section.hidden = !table || table.rows.length < 2;
  if (section.hidden) return;
  const step = Math.max(0, table.columns.indexOf("step"));
  const panels = table.columns.map((name, i) => [name, i]).filter(([, i]) => i !== step && table.rows.some((row) => typeof row[i] === "number"));
  const hosts = panels.map(() => html("div", {}));
  find("#history-charts").replaceChildren(...panels.map(([name], i) => html("div", { class: "panel" }, html("h3", {}, words(name)), hosts[i])));
  panels.forEach(([name, i], k) => lines(hosts[k], [{ name: words(name), points: table.rows.map((row) => [row[step], row[i]]), colour: look(k).colour }], `${words(name)} over training`, { height: 190 }));
}
function drawDynamics() {
  const section = find("#dynamics"), data = model.dynamics;
  section.hidden = !data || data.steps.length < 2;
  if (section.hidden) return;
  const host = find("#lanes"), order = ranked(variables.keys()), width = widthOf(host), row = Math.max(6, Math.min(22, 420 / order.length));
  const box = { left: 50, right: width - 26, top: 6, bottom: 6 + row * order.length }, first = data.steps[0], last = data.steps[data.steps.length - 1];
  const x = scale(first, last, box.left, box.right), drawing = canvas(host, width, box.bottom + 38, "Type of each variable over training");
  const kinds = { a: "active", m: "mixed", p: "passive" };
  order.forEach((j, i) => {
    const y = box.top + i * row;
    for (let t = 0; t < data.steps.length;) {
      let end = t;
      while (end < data.steps.length && data.types[end][j] === data.types[t][j]) end++;
      const kind = kinds[data.types[t][j]], from = x(data.steps[t]), to = x(data.steps[Math.min(end, data.steps.length - 1)]);
      drawing.append(svg("g", { class: kind, "data-tip": `variable ${j}: ${kind} from step ${data.steps[t]}${end < data.steps.length ? ` to ${data.steps[end]}` : " on"}` },
        svg("rect", { class: `lane ${kind}`, x: from, y: y + 1, width: Math.max(0.8, to - from), height: row - 2 })));
      t = end;
    }
    const final = kinds[data.types[data.types.length - 1][j]];
    if (row > 9) drawing.append(svg("text", { class: "strong", x: box.left - 8, y: y + row / 2 + 4, "text-anchor": "end" }, String(j)), svg("g", { class: final }, shape(final, box.right + 12, y + row / 2, Math.min(5, row / 3))));
  });
  axes(drawing, box, x, null, ticks(first, last, Math.max(2, Math.floor(width / 110))), [], { xLabel: "step" });
  find("#lanes-legend").replaceChildren(...TYPES.map((type) => html("li", { class: type }, svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("rect", { class: `lane ${type}`, width: 22, height: 12 })), type)));
  lines(find("#rates"), order.map((j) => ({ name: `variable ${j}`, kind: types[j], points: data.steps.map((s, t) => [s, data.kl[t][j]]), dash: { mixed: "6 3", passive: "2 3" }[types[j]] })), "Information of each variable over training", { yLabel: "KL to the prior, nats", height: 260 });
}
