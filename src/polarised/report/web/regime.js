// The library has typed the variables at every place of the slider, by every rule: the page looks them up.
const ruleOf = (own, name) => own.rules.find((rule) => rule.name === name);
function typesAt(own, alpha, name) {
  const rule = ruleOf(own, name), place = Math.round(alpha / DATA.alpha.step) - 1;
  const [letters, counts] = alpha === own.alpha ? rule.made : rule.types.reduce((last, change) => (change[0] <= place ? change : last)).slice(1);
  return { types: [...letters].map((letter) => KINDS[letter]), counts };
}

const state = { index: 0, alpha: 0.1, rule: "used" };
let model, variables, types, counts;
const asMade = () => state.alpha === model.alpha && state.rule === model.rule;
// What follows alpha itself, and what only a change of some type.
const always = [], onChange = [];
function retype() {
  const before = types;
  ({ types, counts } = typesAt(model, state.alpha, state.rule));
  const changed = !before || before.length !== types.length || before.some((type, j) => type !== types[j]);
  [...always, ...(changed ? onChange : [])].forEach((listener) => listener());
}
// Of very many variables only some are listed: a variable is found by its place in the list.
const placeOf = (variable) => model.places.get(variable);
const typeOf = (variable) => types[placeOf(variable)];
// Active first, then mixed, then passive, by information within.
const ranked = (indices) => [...indices].sort((a, b) => TYPES.indexOf(types[a]) - TYPES.indexOf(types[b]) || variables[b].kl - variables[a].kl);

function spectrum(host, items, label) {
  const width = widthOf(host), height = (width - 44) / items.length > 13 ? 230 : 192, box = { left: 40, right: width - 4, top: 22, bottom: 168 };
  const drawing = canvas(host, width, height, label);
  const finite = items.map((v) => (v.kl > HUGE ? 0 : v.kl));
  const top = Math.max(1e-6, ...finite), y = scale(0, top, box.bottom, box.top);
  axes(drawing, box, null, y, [], ticks(0, top, 4), { yLabel: "KL to the prior, nats" });
  const pitch = (box.right - box.left) / items.length, thick = Math.min(34, pitch * 0.62), size = Math.min(6.5, pitch * 0.3);
  items.forEach((v, i) => {
    const x = box.left + (i + 0.5) * pitch, high = Math.max(1.5, box.bottom - y(Math.min(v.kl, top)));
    const group = svg("g", { class: v.own, "data-tip": `variable ${v.variable}: ${v.own}\nKL ${number(v.kl)} nats · noise share ${number(v.noise_share)}` },
      svg("rect", { x: x - pitch / 2, y: box.top, width: pitch, height: height - box.top, fill: "transparent" }),
      svg("rect", { class: `bar-type ${v.own}`, x: x - thick / 2, y: box.bottom - high, width: thick, height: high, rx: Math.min(3, high / 2) }),
      shape(v.own, x, box.bottom + 16, size));
    if (pitch > 13) group.append(svg("text", { x, y: box.bottom + 39, "text-anchor": "middle", class: "strong" }, String(v.variable)));
    if (pitch > 13) group.append(svg("text", { x, y: box.bottom + 55, "text-anchor": "middle" }, v.own[0].toUpperCase()));
    drawing.append(group);
  });
}

function drawVerdict() {
  find("#counts").replaceChildren(...TYPES.map((type, i) => html("li", { class: `count ${type}` }, html("b", {}, String(counts[i])), badge(type))));
  find("#count-note").textContent = asMade() ? "" : `Counted at α = ${number(state.alpha)} by the ${state.rule} rule, as set below; the text is of α = ${number(model.alpha)}, ${model.rule} rule.`;
  const items = ranked(variables.keys()).map((j) => ({ ...variables[j], own: types[j] }));
  spectrum(find("#spectrum"), items, `Information of each variable: ${items.map((v) => `${v.variable} ${v.own} ${number(v.kl)} nats`).join(", ")}`);
}

// Where each variable stands among the thresholds.
function drawMap() {
  const host = find("#map"), width = widthOf(host), height = Math.min(420, Math.max(250, width * 0.76));
  const rule = ruleOf(model, state.rule), a = state.alpha, { levels, spreads } = rule, bound = ([constant, slope]) => constant + slope * a;
  const right = Math.min(2.2, Math.max(1.25, ...levels.map((level) => level * 1.05))), top = Math.min(1.2, Math.max(0.3, a * 1.25, ...spreads.map((spread) => spread * 1.1)));
  const box = { left: 44, right: width - 10, top: 26, bottom: height - 40 };
  const x = scale(0, right, box.left, box.right), y = scale(0, top, box.bottom, box.top);
  const drawing = canvas(host, width, height, `Variance ratio of each variable and its spread, with the thresholds at alpha ${number(a)}`);
  axes(drawing, box, x, y, ticks(0, right, 6), ticks(0, top, 5), { xLabel: rule.level, yLabel: rule.spread });
  for (const [type, [low, high]] of Object.entries(rule.regions)) {
    const from = bound(low), to = high === null ? right : bound(high);
    const area = { x: x(from), y: y(Math.min(a, top)), width: x(to) - x(from), height: box.bottom - y(Math.min(a, top)) };
    drawing.append(svg("g", { class: type }, svg("rect", { class: "region", ...area }), svg("rect", { class: "region-edge", ...area }),
      svg("text", { class: "strong", x: area.x + area.width / 2, y: area.y - 5, "text-anchor": "middle" }, type)));
  }
  const labels = [];
  for (const j of ranked(variables.keys()).reverse()) {
    const v = variables[j], [px, py] = [x(Math.min(levels[j], right)), y(Math.min(spreads[j], top))];
    const text = `variable ${v.variable}: ${types[j]}\nlevel ${number(levels[j])}, spread ${number(spreads[j])}` + (state.rule === "standard" ? "" : `, shift ${number(v.shift)}`);
    drawing.append(svg("g", { class: types[j], "data-tip": text }, shape(types[j], px, py, 5.2)));
    // Variables that fall together share one label.
    const near = labels.find((label) => Math.hypot(label.px - px, label.py - py) < 15);
    if (near) near.names.push(v.variable); else labels.push({ px, py, names: [v.variable] });
  }
  for (const { px, py, names } of labels) {
    const text = names.sort((a, b) => a - b).slice(0, 6).join(", ") + (names.length > 6 ? ` +${names.length - 6}` : "");
    const atEnd = px + 8 + text.length * 6.5 > box.right;
    drawing.append(svg("text", { class: "strong", x: px + (atEnd ? -9 : 9), y: py - 7, "text-anchor": atEnd ? "end" : "start" }, text));
  }
}

function setUpAlpha() {
  const slider = find("#alpha"), rules = all("#rule button");
  slider.addEventListener("input", () => { state.alpha = slider.valueAsNumber; tell(); });
  for (const button of rules) button.addEventListener("click", () => { state.rule = button.value; tell(); });
  find("#as-made").addEventListener("click", () => { state.alpha = model.alpha; state.rule = model.rule; tell(); });
  function tell() { showAlpha(); retype(); }
}
function showAlpha() {
  find("#alpha").value = state.alpha;
  find("#alpha-value").textContent = state.alpha.toFixed(3).replace(/0$/, "");
  find("#alpha").setAttribute("aria-valuetext", `alpha ${state.alpha}`);
  pressed(all("#rule button"), all("#rule button").find((button) => button.value === state.rule));
}
function drawFlips() {
  const flips = variables.map((v, j) => [v, types[j]]).filter(([v, type]) => v.type !== type);
  const text = asMade() ? "Move α to see which types depend on the threshold." :
    flips.length === 0 ? "No type changes." :
    `${flips.length} of ${variables.length} ${flips.length === 1 ? "changes" : "change"}: ${flips.slice(0, 12).map(([v, type]) => `${v.variable} ${v.type} → ${type}`).join(", ")}${flips.length > 12 ? ", …" : ""}.`;
  find("#flips").textContent = text;
  find("#flips").classList.toggle("hint", asMade());
  const clauses = Object.entries(ruleOf(model, state.rule).clauses).map(([type, clause]) => [type, clause.replaceAll("{alpha}", number(state.alpha))]);
  find("#clauses").replaceChildren(...clauses.map(([type, clause]) => html("li", {}, badge(type), html("span", {}, clause))));
}
