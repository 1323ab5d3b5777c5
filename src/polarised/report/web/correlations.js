// Correlation matrices of the mean and the sampled representation; the arrow keys move between cells.
const corder = { byType: true };
function tint(value) {
  if (value === null) return null;
  const strength = Math.round(Math.min(1, Math.abs(value)) * 100);
  return `color-mix(in oklab, var(${value < 0 ? "--negative" : "--positive"}) ${strength}%, var(--panel))`;
}
function matrix(host, kind, positions) {
  const values = model.correlations[kind], names = model.correlations.variables, d = positions.length;
  const width = widthOf(host), margin = d > 40 ? 22 : 42, cell = (width - margin - 2) / d, height = width;
  const drawing = canvas(host, width, height, `Correlations of the ${kind} representation; move with the arrow keys`);
  drawing.setAttribute("role", "application");
  drawing.setAttribute("tabindex", "0");
  positions.forEach((p, i) => {
    const at = margin + (i + 0.5) * cell, type = types[names[p]], size = Math.min(5, cell * 0.32), label = cell > 11;
    drawing.append(svg("g", { class: type }, shape(type, at, margin - 9, size), shape(type, margin - 9, at, size)));
    if (label) drawing.append(svg("text", { class: "strong", x: at, y: margin - 20, "text-anchor": "middle" }, String(names[p])), svg("text", { class: "strong", x: margin - 19, y: at + 4, "text-anchor": "end" }, String(names[p])));
  });
  const cells = positions.map((p, i) => positions.map((q, k) => {
    const value = values[p][q], rect = svg("rect", { class: value === null ? "cell empty" : "cell", x: margin + k * cell, y: margin + i * cell, width: cell, height: cell,
      "data-tip": `${names[p]} (${types[names[p]]}) and ${names[q]} (${types[names[q]]})\n${value === null ? "constant: no correlation" : `correlation ${value.toFixed(2).replace("-", "−")}`}` });
    if (value !== null) rect.style.fill = tint(value);
    return rect;
  }));
  drawing.append(...cells.flat());
  let at = [0, 0];
  const readout = find(`#${kind}-readout`);
  const choose = (i, k) => {
    cells[at[0]][at[1]].classList.remove("chosen");
    at = [Math.max(0, Math.min(d - 1, i)), Math.max(0, Math.min(d - 1, k))];
    const rect = cells[at[0]][at[1]];
    rect.classList.add("chosen");
    rect.parentNode.append(rect);
    readout.textContent = rect.dataset.tip.replace("\n", ": ");
  };
  drawing.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    choose(at[0] + move[0], at[1] + move[1]);
  });
  drawing.addEventListener("pointerover", (event) => { if (event.target.dataset.tip) readout.textContent = event.target.dataset.tip.replace("\n", ": "); });
}
function drawCorrelations() {
  const names = model.correlations.variables;
  find("#correlations").hidden = names.length < 2;
  if (names.length < 2) return;
  const rank = new Map(ranked(names).map((j, i) => [j, i]));
  const positions = [...names.keys()];
  if (corder.byType) positions.sort((p, q) => rank.get(names[p]) - rank.get(names[q]));
  for (const kind of REPRESENTATIONS) matrix(find(`#matrix-${kind}`), kind, positions);
  find("#correlations-cut").hidden = names.length === variables.length;
  const sample = model.kept < model.rows ? `, of a sample of ${model.kept.toLocaleString("en")} of ${model.rows.toLocaleString("en")} rows` : "";
  find("#correlations-cut").textContent = `The ${names.length} most informative of ${variables.length.toLocaleString("en")} variables${sample}.`;
}
function setUpCorrelations() {
  const buttons = all("#matrix-order button");
  for (const button of buttons) button.addEventListener("click", () => { corder.byType = button.value === "type"; pressed(buttons, button); drawCorrelations(); });
}
