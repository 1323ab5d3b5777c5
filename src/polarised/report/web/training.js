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
// The forecast made before training: alive variables over beta, on a logarithmic axis.
function drawForecast() {
  const section = find("#forecast"), rows = records(model.forecast);
  section.hidden = rows.length < 2;
  if (section.hidden) return;
  const here = rows.find((row) => row.here) || rows[0], most = Math.max(...rows.map((row) => row.alive), 1);
  const series = ["alive", "active"].map((name, i) => ({ name: name === "alive" ? "active or mixed" : name, kind: name === "alive" ? "mixed" : "active", dash: i ? "" : "5 4", points: rows.map((row) => [Math.log10(row.beta), row[name]]) }));
  series.push({ name: `here, beta ${brief(here.beta)}`, points: [[Math.log10(here.beta), 0], [Math.log10(here.beta), most]], dash: "2 3" });
  find("#forecast-sentence").textContent = here.sentence;
  lines(find("#forecast-curve"), series, "Variables of a linear model over beta", { xLabel: "β", yLabel: "variables", height: 220, domain: [0, most], xText: (value) => brief(10 ** value) });
}
function drawDynamics() {
  const section = find("#dynamics"), data = model.dynamics;
  section.hidden = !data || data.steps.length < 2;
  if (section.hidden) return;
  const place = new Map(data.variables.map((j, i) => [j, i])), order = ranked(data.variables).map((j) => place.get(j)), final = [...data.types[data.types.length - 1]].map((letter) => KINDS[letter]);
  lanes(find("#lanes"), { steps: data.steps, types: data.types, names: data.variables, order, final }, "Type of each variable over training");
  find("#dynamics-cut").hidden = data.variables.length === variables.length;
  find("#dynamics-cut").textContent = `${data.variables.length} of ${variables.length.toLocaleString("en")} variables: mostly the most informative ones, and a sample of the others.`;
  find("#lanes-legend").replaceChildren(...laneKeys());
  lines(find("#rates"), order.map((i) => ({ name: `variable ${data.variables[i]}`, kind: types[data.variables[i]], points: data.steps.map((s, t) => [s, data.kl[t][i]]), dash: LOOKS.types[types[data.variables[i]]].dash })), "Information of each variable over training", { yLabel: "KL to the prior, nats", height: 260 });
}
