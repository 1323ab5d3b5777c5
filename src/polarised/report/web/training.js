// Training: every named term of the loss, then the type and information of each variable over time.
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
  const order = ranked(variables.keys()), final = [...data.types[data.types.length - 1]].map((letter) => KINDS[letter]);
  lanes(find("#lanes"), { steps: data.steps, types: data.types, names: [...variables.keys()], order, final }, "Type of each variable over training");
  find("#lanes-legend").replaceChildren(...laneKeys());
  lines(find("#rates"), order.map((j) => ({ name: `variable ${j}`, kind: types[j], points: data.steps.map((s, t) => [s, data.kl[t][j]]), dash: TYPE_DASH[types[j]] })), "Information of each variable over training", { yLabel: "KL to the prior, nats", height: 260 });
}
