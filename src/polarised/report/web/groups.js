// Groups of latents, or stretches of very many variables: how many of each type, and how much information.
let shownGroup = null;
const GROUP_COLUMNS = ["Group", "Variables", ...TYPES, "KL, nats", "Noise share"];
const groupRow = (group) => [group.name, group.variables, ...group.counts, group.kl, group.noise_share];
const groupTable = () => ({ columns: GROUP_COLUMNS.map((name) => name.toLowerCase()), rows: model.groups.map(groupRow) });
// One bar as wide as the group, in the colours of the types.
function typeBar(group) {
  const width = 120, height = 12, drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": TYPES.map((type, i) => `${group.counts[i]} ${type}`).join(", ") });
  let x = 0;
  TYPES.forEach((type, i) => {
    const part = (group.counts[i] / group.variables) * width;
    if (part > 0) drawing.append(svg("rect", { class: `bar-type ${type}`, x, y: 0, width: part, height }));
    x += part;
  });
  return drawing;
}
function buildGroups() {
  const groups = model.groups, own = groups.filter((group) => group.own);
  shownGroup = null;
  find("#groups").hidden = !groups.length;
  find("#listing").hidden = !model.listing;
  find("#listing").textContent = model.listing;
  find("#groups-table").replaceChildren(html("thead", {}, html("tr", {}, [...GROUP_COLUMNS, "Types"].map((label, i) => html("th", { scope: "col", class: i ? null : "left" }, TYPES.includes(label) ? badge(label) : label)))),
    html("tbody", {}, groups.map((group) => html("tr", {}, groupRow(group).map((value, i) => html(i ? "td" : "th", i ? {} : { scope: "row", class: "left name" }, i ? number(value) : value)), html("td", {}, typeBar(group))))));
  find("#group-filter").replaceChildren(...own.map((group) => html("button", { type: "button", "aria-pressed": "false", onclick: (event) => {
    shownGroup = shownGroup === group.name ? null : group.name;
    for (const button of all("#group-filter button")) button.setAttribute("aria-pressed", String(button === event.currentTarget && shownGroup !== null));
    drawVariables();
  } }, group.name)));
  const hosts = own.map(() => html("div", {}));
  find("#group-panels").replaceChildren(...own.map((group, i) => html("div", { class: "panel" }, html("h3", {}, group.name), html("p", { class: "note" }, TYPES.map((type, k) => `${group.counts[k]} ${type}`).join(", ")), hosts[i])));
}
function drawGroups() {
  const own = model.groups.filter((group) => group.own);
  all("#group-panels .panel > div").forEach((host, i) => {
    const items = ranked([...variables.keys()].filter((j) => variables[j].group === own[i].name)).map((j) => ({ ...variables[j], own: types[j] }));
    if (items.length) spectrum(host, items, `Information of each variable in ${own[i].name}`);
  });
}
