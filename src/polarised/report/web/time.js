// Over time: lines and lanes, with their values on hover or by the arrow keys.
// Heights of labels, moved apart until none overlaps another.
function apart(heights, gap, top, bottom) {
  const order = heights.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]), placed = [];
  order.forEach(([y], k) => placed.push(Math.max(y, k ? placed[k - 1] + gap : top)));
  for (let k = placed.length - 1; k >= 0; k--) placed[k] = Math.min(placed[k], k === placed.length - 1 ? bottom : placed[k + 1] - gap);
  const result = [];
  order.forEach(([, i], k) => { result[i] = placed[k]; });
  return result;
}
function lines(host, series, label, { xLabel = "step", yLabel = "", height = 220, domain = null, xText = short, markers = false } = {}) {
  const usable = series.map((s) => ({ ...s, points: s.points.filter(([, v]) => v !== null && Math.abs(v) < HUGE) })).filter((s) => s.points.length);
  if (!usable.length) return host.replaceChildren(html("p", { class: "note" }, "nothing to draw"));
  const tagged = usable.some((s) => s.tag), width = widthOf(host, 260), box = { left: 50, right: width - (tagged ? 34 : 10), top: 24, bottom: height - 38 };
  const xs = usable.flatMap((s) => s.points.map((p) => p[0])), ys = usable.flatMap((s) => s.points.map((p) => p[1])).sort((a, b) => a - b);
  // Values at the first steps may be hundreds of times larger: the axis covers 99 of 100 points.
  let low = Math.min(0, ys[0]) === 0 && ys[0] < ys[ys.length - 1] * 0.5 ? 0 : ys[0];
  const [left, right] = extent(xs), cut = ys.length > 50 ? ys[Math.floor(ys.length * 0.985)] : ys[ys.length - 1];
  let high = ys[ys.length - 1] > cut + (cut - low) ? cut + 0.15 * (cut - low) : ys[ys.length - 1];
  if (domain) [low, high] = domain;
  const x = scale(left, right, box.left, box.right), y = scale(low, high === low ? low + 1 : high, box.bottom, box.top), drawing = canvas(host, width, height, `${label}; the arrow keys show the values`);
  const inside = (value) => Math.max(box.top - 8, y(value));
  axes(drawing, box, x, y, ticks(left, right, Math.max(2, Math.floor(width / (xText === short ? 110 : 60)))), ticks(low, high, 4), { xLabel, yLabel, xText });
  usable.forEach((s) => {
    const path = s.points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${inside(b).toFixed(1)}`).join(""), group = svg("g", { class: s.kind || "" });
    if (s.colour) group.style.setProperty("--own", s.colour);
    group.append(svg("path", { class: s.points.length > 100 ? "line fine" : "line", d: path, "stroke-dasharray": s.dash || null }));
    if (markers) for (const [a, b] of s.points) group.append(marker(s.mark || "o", x(a), inside(b)));
    drawing.append(group);
  });
  if (tagged) {
    const ends = usable.map((s) => inside(s.points[s.points.length - 1][1])), heights = apart(ends, 11.5, box.top - 4, box.bottom);
    usable.forEach((s, i) => drawing.append(svg("g", { class: s.kind || "" }, svg("path", { class: "leader", d: `M${box.right} ${ends[i].toFixed(1)}L${box.right + 9} ${heights[i].toFixed(1)}` }), svg("text", { class: "tag", x: box.right + 12, y: heights[i] + 4 }, s.tag))));
  }
  const hair = svg("line", { class: "axis-line", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const pane = svg("rect", { x: box.left, y: box.top - 8, width: box.right - box.left, height: box.bottom - box.top + 8, fill: "transparent" });
  const near = (points, at) => points.reduce((best, p) => (Math.abs(p[0] - at) < Math.abs(best[0] - at) ? p : best));
  const point = (at) => {
    const step = near(usable[0].points, at)[0];
    hair.setAttribute("x1", x(step)); hair.setAttribute("x2", x(step)); hair.setAttribute("visibility", "visible");
    pane.dataset.tip = [`${xLabel} ${xText === short ? number(step) : xText(step)}`, ...usable.slice(0, 14).map((s) => `${s.name}: ${number(near(s.points, step)[1], 4)}`)].join("\n");
    return step;
  };
  pane.addEventListener("pointermove", (event) => {
    const area = drawing.getBoundingClientRect();
    point(left + ((event.clientX - area.left) * (width / area.width) - box.left) / (box.right - box.left) * (right - left));
  });
  const gone = () => hair.setAttribute("visibility", "hidden");
  pane.addEventListener("pointerleave", gone);
  drawing.addEventListener("blur", gone);
  let index = -1;
  drawing.addEventListener("keydown", (event) => {
    const steps = usable[0].points, far = Math.max(1, Math.round(steps.length / 10)), last = steps.length - 1;
    const next = { ArrowRight: index + 1, ArrowLeft: index < 0 ? last : index - 1, PageDown: index + far, PageUp: index - far, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    index = Math.max(0, Math.min(last, next));
    const step = point(steps[index][0]), area = drawing.getBoundingClientRect();
    hint(pane.dataset.tip, area.left + x(step) * (area.width / width) + 10, area.top + box.top);
  });
  drawing.append(hair, pane);
}
// One lane per variable, in the given order: its type at every moment, and its final type at the end.
function lanes(host, { steps, types, names, order, final }, label) {
  const width = widthOf(host), row = Math.max(6, Math.min(22, 420 / order.length));
  const box = { left: 50, right: width - 26, top: 6, bottom: 6 + row * order.length }, first = steps[0], last = steps[steps.length - 1];
  const x = scale(first, last, box.left, box.right), drawing = canvas(host, width, box.bottom + 38, label);
  order.forEach((j, i) => {
    const y = box.top + i * row;
    for (let t = 0; t < steps.length;) {
      let end = t;
      while (end < steps.length && types[end][j] === types[t][j]) end++;
      const kind = KINDS[types[t][j]], from = x(steps[t]), to = x(steps[Math.min(end, steps.length - 1)]);
      drawing.append(svg("g", { class: kind, "data-tip": `variable ${names[j]}: ${kind} from step ${steps[t]}${end < steps.length ? ` to ${steps[end]}` : " on"}` },
        svg("rect", { class: `lane ${kind}`, x: from, y: y + 1, width: Math.max(0.8, to - from), height: row - 2 })));
      t = end;
    }
    if (row > 9) drawing.append(svg("text", { class: "strong", x: box.left - 8, y: y + row / 2 + 4, "text-anchor": "end" }, String(names[j])), svg("g", { class: final[j] }, shape(final[j], box.right + 12, y + row / 2, Math.min(5, row / 3))));
  });
  axes(drawing, box, x, null, ticks(first, last, Math.max(2, Math.floor(width / 110))), [], { xLabel: "step" });
}
const laneKeys = () => TYPES.map((type) => html("li", { class: type }, svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("rect", { class: `lane ${type}`, width: 22, height: 12 })), `${type} (${type[0].toUpperCase()})`));
