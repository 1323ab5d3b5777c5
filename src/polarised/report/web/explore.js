// The live page: the code of the sliders is sent to the decoder, one request at a time, and the latest one wins.
const here = location.pathname;
const code = Array(DATA.latents).fill(0);
const dials = new Map();
let asking = false, again = false, shownUrl = null, current = null;
const tell = (text) => { find("#state").textContent = text; };

async function showPicture(answer) {
  const url = URL.createObjectURL(await answer.blob()), image = find("#decoded");
  image.src = url;
  await image.decode();
  if (shownUrl) URL.revokeObjectURL(shownUrl);
  shownUrl = url;
}
async function showGenes(answer) {
  const { moved, genes } = JSON.parse(await answer.text(), revive), top = most(genes.map((g) => Math.abs(g.change)), 0.01);
  find("#genes-note").textContent = moved ? "The genes whose expression rises and falls most." : "Nothing has moved; these are the genes that this cell expresses most.";
  find("#decoded tbody").replaceChildren(...genes.map((g) => {
    const reach = (Math.abs(g.change) / top) * 38, bar = svg("svg", { viewBox: "0 0 80 10", "aria-hidden": "true" });
    bar.append(svg("line", { x1: 40, x2: 40, y1: 0, y2: 10 }), svg("rect", { x: (g.change < 0 ? 40 - reach : 40).toFixed(1), y: 2, width: reach.toFixed(1), height: 6, class: g.change < 0 ? "fall" : "rise" }));
    return html("tr", {}, html("th", { scope: "row" }, g.gene), html("td", {}, bar, moved ? html("span", {}, `${g.change > 0 ? "+" : ""}${number(g.change)}`) : ""), html("td", {}, moved ? `${number(g.before)} → ${number(g.after)}` : number(g.after)));
  }));
}

async function decode() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const answer = await fetch(`${here}decode`, { method: "POST", body: JSON.stringify({ z: code, input: current }) });
    if (!answer.ok) throw new Error(await answer.text());
    await (DATA.shows === "genes" ? showGenes(answer) : showPicture(answer));
    const shown = find("#decoded");
    tell("");
    shown.dataset.count = Number(shown.dataset.count || 0) + 1;
  } catch (error) {
    tell(error instanceof TypeError ? "The server has stopped." : error.message);
  }
  asking = false;
  if (again) { again = false; decode(); }
}
function set(j, value) {
  code[j] = value;
  const dial = dials.get(j);
  if (!dial) return;
  dial.slider.value = value;
  dial.value.textContent = number(value);
  dial.slider.setAttribute("aria-valuetext", number(value));
}
function place(values) {
  values.forEach((value, j) => set(j, value));
  decode();
}
async function encode(index) {
  try {
    const answer = await fetch(`${here}inputs/${index}`);
    if (!answer.ok) throw new Error(await answer.text());
    const { mean: centre, original, about } = JSON.parse(await answer.text(), revive);
    current = Number(index);
    if (original) find("#original").src = original;
    else find("#about").textContent = about;
    find("#input-number").textContent = String(index);
    find("#input-index").value = index;
    find("#input-part").hidden = false;
    place(centre);
    drawCloud();
  } catch (error) {
    tell(error instanceof TypeError ? "The server has stopped." : error.message);
  }
}
// A prior may depend on the auxiliary variables of the encoded input.
async function draw() {
  try {
    const answer = await fetch(`${here}draws/${current ?? 0}`);
    if (!answer.ok) throw new Error(await answer.text());
    place(JSON.parse(await answer.text(), revive).z);
  } catch (error) {
    tell(error instanceof TypeError ? "The server has stopped." : error.message);
  }
}
function drawCloud() {
  const host = find("#cloud"), [a, b] = ["#across", "#up"].map((id) => Number(find(id).value)), width = widthOf(host), height = Math.min(380, width * 0.85);
  const box = { left: 40, right: width - 8, top: 28, bottom: height - 34 };
  const limits = (j) => { const [low, high] = extent(DATA.points.map((p) => p[j])), pad = (high - low || 1) * 0.05; return [low - pad, high + pad]; };
  const [left, right] = limits(a), [low, high] = limits(b), x = scale(left, right, box.left, box.right), y = scale(low, high, box.bottom, box.top);
  const drawing = canvas(host, width, height, `Posterior means of ${DATA.points.length} inputs; the arrow keys choose one, Enter encodes it`);
  axes(drawing, box, x, y, ticks(left, right, 5), ticks(low, high, 5), { xLabel: `mean of variable ${a}`, yLabel: `mean of variable ${b}` });
  DATA.points.forEach((p, i) => {
    const dot = svg("circle", { class: i === current ? "point chosen" : "point", cx: x(p[a]).toFixed(1), cy: y(p[b]).toFixed(1), r: i === current ? 6 : 3.4, "data-tip": `input ${i}` });
    dot.addEventListener("click", () => encode(i));
    drawing.append(dot);
  });
}
const strongest = [...DATA.variables].sort((u, v) => TYPES.indexOf(u.type) - TYPES.indexOf(v.type) || v.kl - u.kl);
find("#dials").replaceChildren(...strongest.map((v) => {
  const j = v.variable, reach = DATA.reach[j];
  const slider = html("input", { type: "range", min: -reach, max: reach, step: reach / 150, value: 0, "data-variable": j, "aria-label": `variable ${j}, ${v.type}` }), value = html("output", {}, "0");
  slider.addEventListener("input", () => { set(j, slider.valueAsNumber); decode(); });
  dials.set(j, { slider, value });
  return html("div", { class: `dial ${v.type}`, "data-tip": `KL ${number(v.kl)} nats` }, badge(v.type, `${j} ${v.type}`), slider, value);
}));
find("#dials-cut").hidden = DATA.variables.length === DATA.latents;
find("#dials-cut").textContent = `Sliders for the ${DATA.variables.length} most informative of ${DATA.latents} variables; the others follow the input.`;
find("#input-index").max = DATA.points.length - 1;
[["#across", 0], ["#up", 1]].forEach(([id, k]) => {
  find(id).replaceChildren(...strongest.map((v) => html("option", { value: v.variable }, `${v.variable} ${v.type}`)));
  find(id).selectedIndex = Math.min(k, strongest.length - 1);
  find(id).addEventListener("change", drawCloud);
});
find("#zero").addEventListener("click", () => place(code.map(() => 0)));
find("#draw").addEventListener("click", draw);
find("#encode").addEventListener("click", () => encode(find("#input-index").value));
find("#input-index").addEventListener("keydown", (event) => { if (event.key === "Enter") encode(find("#input-index").value); });
redraws.push(drawCloud);
drawCloud();
encode(0);
