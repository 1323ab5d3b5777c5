// The library has computed the types at every position of the slider, for every rule; the page looks them up.
const ruleOf = (own, name) => own.rules.find((rule) => rule.name === name);
function typesAt(own, alpha, name) {
  const rule = ruleOf(own, name), place = Math.round(alpha / DATA.alpha.step) - 1;
  const letters = [...(alpha === own.alpha ? rule.made : rule.start)];
  if (alpha !== own.alpha) for (const [at, letter, changed] of rule.changes) if (at <= place) for (const j of changed) letters[j] = letter;
  return letters.map((letter) => KINDS[letter]);
}

const state = { index: 0, alpha: 0.1, rule: "used" };
let model, variables, types;
const asMade = () => state.alpha === model.alpha && state.rule === model.rule;
// Parts that depend on alpha itself, and parts that change only with a type.
const always = [], onChange = [];
function retype() {
  const before = types;
  types = typesAt(model, state.alpha, state.rule);
  const changed = !before || before.length !== types.length || before.some((type, j) => type !== types[j]);
  [...always, ...(changed ? onChange : [])].forEach((listener) => listener());
}
// Active first, then mixed, then passive, by information within.
const ranked = (indices) => [...indices].sort((a, b) => TYPES.indexOf(types[a]) - TYPES.indexOf(types[b]) || variables[b].kl - variables[a].kl);

// Of many variables, only the most informative have their own bars.
function spectrum(host, everyone, label) {
  const few = new Set(everyone.length > DATA.many ? [...everyone].sort((a, b) => b.kl - a.kl).slice(0, DATA.many) : everyone);
  const items = everyone.filter((v) => few.has(v)), others = everyone.filter((v) => !few.has(v));
  const width = widthOf(host), height = (width - 44) / items.length > 13 ? 230 : 192, box = { left: 40, right: width - 4, top: 22, bottom: 168 };
  const drawing = canvas(host, width, height, label);
  const finite = items.map((v) => (v.kl > HUGE ? 0 : v.kl));
  const top = most(finite, 1e-6), y = scale(0, top, box.bottom, box.top);
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
  if (others.length) host.append(html("p", { class: "note", style: "margin:.3rem 0 0" }, `The ${items.length} most informative; the other ${others.length.toLocaleString("en")} carry ${number(total(others.map((v) => Math.min(v.kl, HUGE))))} nats together.`));
}

function drawVerdict() {
  const counts = TYPES.map((type) => types.filter((own) => own === type).length);
  find("#counts").replaceChildren(...TYPES.map((type, i) => html("li", { class: `count ${type}` }, html("b", {}, counts[i].toLocaleString("en")), badge(type))));
  find("#count-note").textContent = asMade() ? "" : `Counted at α = ${number(state.alpha)} by the ${state.rule} rule, as set below; the text is for α = ${number(model.alpha)}, ${model.rule} rule.`;
  const items = ranked(variables.keys()).map((j) => ({ ...variables[j], own: types[j] }));
  spectrum(find("#spectrum"), items, `Information of each variable: ${items.slice(0, DATA.many).map((v) => `${v.variable} ${v.own} ${number(v.kl)} nats`).join(", ")}`);
}
// Groups of latents, for example of a hierarchical model: the number of each type, and their information.
const inGroup = (group) => [...variables.keys()].slice(group.first, group.last + 1);
function drawGroups() {
  const section = find("#groups");
  section.hidden = !model.groups.length;
  if (section.hidden) return;
  const everything = total(variables.map((v) => Math.min(v.kl, HUGE))) || 1, hosts = model.groups.map(() => html("div", {}));
  find("#groups-panels").replaceChildren(...model.groups.map((group, g) => {
    const own = inGroup(group), carried = total(own.map((j) => Math.min(variables[j].kl, HUGE)));
    return html("div", { class: "panel", "data-group": group.name }, html("h3", {}, group.name),
      html("p", { class: "note" }, `${counted(own.length, "variable")} (${group.first} to ${group.last}), ${number(carried)} nats, ${percent(carried / everything)} of the whole code`),
      html("p", { class: "row" }, TYPES.map((type) => badge(type, `${own.filter((j) => types[j] === type).length.toLocaleString("en")} ${type}`))), hosts[g],
      html("p", { style: "margin:.6rem 0 0" }, html("button", { type: "button", onclick: () => { chosenRows.group = chosenRows.group === group ? null : group; drawVariables(); find("#variables").scrollIntoView(); } }, "Its variables")));
  }));
  model.groups.forEach((group, g) => spectrum(hosts[g], ranked(inGroup(group)).map((j) => ({ ...variables[j], own: types[j] })), `Information of the variables of ${group.name}`));
}

// The position of each variable relative to the thresholds.
function drawMap() {
  const host = find("#map"), width = widthOf(host), beside = find("#clauses").parentNode, room = beside.offsetTop === host.parentNode.offsetTop && paper === 1 ? beside.clientHeight - 42 : 0;
  const height = Math.max(Math.min(420, Math.max(250, width * 0.76)), Math.min(room || 0, 620));
  const rule = ruleOf(model, state.rule), a = state.alpha, bound = ([constant, slope]) => constant + slope * a;
  const [levels, spreads] = [rule.levels, rule.spreads].map((values) => unpacked(values, variables.length));
  const right = Math.min(2.2, most(levels.map((level) => level * 1.05), 1.1)), top = Math.min(1.2, most(spreads.map((spread) => spread * 1.2), a * 1.3));
  const box = { left: 44, right: width - 10, top: 26, bottom: height - 40 };
  // Most variables are near 0: a square root gives them more space.
  const x = rootScale(right, box.left, box.right), y = rootScale(top, box.bottom, box.top);
  const drawing = canvas(host, width, height, `Variance ratio of each variable and its spread, with the thresholds at alpha ${number(a)}`);
  axes(drawing, box, x, y, rootTicks(right, x, 27), rootTicks(top, y, 14), { xLabel: rule.level, yLabel: rule.spread });
  for (const [type, [low, high]] of Object.entries(rule.regions)) {
    const from = bound(low), to = high === null ? right : bound(high);
    const area = { x: x(from), y: y(Math.min(a, top)), width: x(to) - x(from), height: box.bottom - y(Math.min(a, top)) };
    drawing.append(svg("g", { class: type }, svg("rect", { class: "region", ...area }), svg("rect", { class: "region-edge", ...area }),
      svg("text", { class: "strong", x: area.x + area.width / 2, y: area.y + 14, "text-anchor": "middle" }, type)));
  }
  if (variables.length > DATA.many) return drawCrowd(drawing, levels.map((level, j) => [x(Math.min(level, right)), y(Math.min(spreads[j], top)), types[j]]));
  const labels = [];
  for (const j of ranked(variables.keys()).reverse()) {
    const v = variables[j], [px, py] = [x(Math.min(levels[j], right)), y(Math.min(spreads[j], top))];
    const text = `variable ${v.variable}: ${types[j]}\nlevel ${number(levels[j])}, variance of it ${number(spreads[j])}${state.rule === "standard" ? "" : `, shift ${number(v.shift)}`}`;
    drawing.append(svg("g", { class: types[j], "data-tip": text }, shape(types[j], px, py, 5.2)));
    // Variables at the same point share one label.
    const near = labels.find((label) => Math.hypot(label.px - px, label.py - py) < 15);
    if (near) near.names.push(v.variable); else labels.push({ px, py, names: [v.variable] });
  }
  for (const { px, py, names } of labels) {
    const text = names.sort((a, b) => a - b).slice(0, 6).join(", ") + (names.length > 6 ? ` +${names.length - 6}` : "");
    const atEnd = px + 8 + text.length * 6.5 > box.right;
    drawing.append(svg("text", { class: "strong halo", x: px + (atEnd ? -9 : 9), y: py - 9, "text-anchor": atEnd ? "end" : "start" }, text));
  }
}
// With many variables, one mark represents all variables of a type in a small square; its size shows their number.
function drawCrowd(drawing, points) {
  const squares = new Map();
  for (const [px, py, type] of points) {
    const key = `${type} ${Math.round(px / 9)} ${Math.round(py / 9)}`, own = squares.get(key) || { type, px: 0, py: 0, n: 0 };
    squares.set(key, { type, px: own.px + px, py: own.py + py, n: own.n + 1 });
  }
  for (const { type, px, py, n } of [...squares.values()].sort((a, b) => b.n - a.n)) drawing.append(svg("g", { class: type, "data-tip": `${counted(n, "variable")}, ${type}` }, shape(type, px / n, py / n, Math.min(11, 2.6 + Math.log2(n)))));
}

function setUpAlpha() {
  const slider = find("#alpha"), rules = all("#rule button");
  let pause = 0;
  slider.addEventListener("input", () => {
    state.alpha = slider.valueAsNumber;
    // Thousands of variables are updated only when the slider stops.
    if (variables.length <= 10 * DATA.many) return tell();
    showAlpha();
    clearTimeout(pause);
    pause = setTimeout(tell, 120);
  });
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
