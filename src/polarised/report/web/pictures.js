// Decoded images: a traversal of each variable, and reconstructions.
const walks = new Map();
// One image of a strip.
function picture(uri, i, count, label = null) {
  const frame = html("div", { class: "frame", role: label ? "img" : null, "aria-label": label });
  frame.style.backgroundImage = `url(${uri})`;
  frame.style.backgroundSize = `${count * 100}% 100%`;
  frame.style.backgroundPosition = `${count > 1 ? (i / (count - 1)) * 100 : 0}% 0`;
  frame.style.aspectRatio = `${model.pictures.width} / ${model.pictures.height}`;
  return frame;
}
function frameAt(walk, i) {
  const steps = model.pictures.values.length;
  walk.frame.style.backgroundPosition = `${steps > 1 ? (i / (steps - 1)) * 100 : 0}% 0`;
  // With a learned prior, the traversal is in units of its standard deviations.
  walk.value.textContent = model.learned_prior ? `${number(model.pictures.values[i])} sd` : `z = ${number(model.pictures.values[i])}`;
  walk.slider.value = i;
  walk.slider.setAttribute("aria-valuetext", walk.value.textContent);
}
function buildWalks() {
  walks.clear();
  const pictures = model.pictures;
  find("#traversals").hidden = find("#reconstructions").hidden = !pictures;
  if (!pictures) return;
  const steps = pictures.values.length, middle = Math.floor(steps / 2);
  for (const [name, uri] of Object.entries(pictures.traversals)) {
    const j = Number(name), frame = picture(uri, middle, steps, `decoder’s image along variable ${j}`);
    const walk = { j, frame, value: html("span", { class: "value note" }), label: html("span", {}),
      film: html("div", { class: "film", role: "img", "aria-label": `traversal of variable ${j}, from ${number(pictures.values[0])} to ${number(pictures.values[steps - 1])}` }, pictures.values.map((_, i) => picture(uri, i, steps))),
      slider: html("input", { type: "range", min: 0, max: steps - 1, step: 1, "data-variable": j, "aria-label": `value of variable ${j}` }) };
    walk.slider.addEventListener("input", () => frameAt(walk, walk.slider.valueAsNumber));
    walk.card = html("div", { class: "panel walk" }, html("div", { class: "row spread" }, walk.label, walk.value), frame, walk.film, walk.slider);
    walks.set(j, walk);
    frameAt(walk, middle);
  }
  find("#walk-start").replaceChildren(picture(pictures.originals, 0, pictures.pairs, "the input at which the traversals start"), picture(pictures.reconstructions, 0, pictures.pairs, "the same, decoded"));
  const everything = find("#all-walks");
  everything.max = steps - 1;
  everything.value = middle;
  find("#walks-cut").hidden = walks.size === variables.length;
  find("#walks-cut").textContent = `The ${walks.size} most informative of ${variables.length} variables.`;
  find("#pairs").replaceChildren(...[...Array(pictures.pairs).keys()].map((i) => html("div", { class: "pair" },
    picture(pictures.originals, i, pictures.pairs, `original ${i + 1}`), picture(pictures.reconstructions, i, pictures.pairs, `original ${i + 1}, encoded and decoded at its posterior mean`))));
}
function drawWalks() {
  if (!model.pictures) return;
  const top = Math.max(1e-9, ...model.pictures.movement);
  for (const walk of walks.values()) {
    const moved = model.pictures.movement[walk.j];
    walk.card.className = `panel walk ${types[walk.j]}`;
    walk.label.replaceChildren(badge(types[walk.j], `${walk.j} ${types[walk.j]}`));
    walk.card.dataset.tip = `the image changes ${percent(moved / top)} as much as along the strongest variable`;
  }
  find("#walks").replaceChildren(...ranked(walks.keys()).map((j) => walks.get(j).card));
}
function setUpWalks() {
  const everything = find("#all-walks"), buttons = all("#walk-view button");
  everything.addEventListener("input", () => walks.forEach((walk) => frameAt(walk, everything.valueAsNumber)));
  for (const button of buttons) button.addEventListener("click", () => { pressed(buttons, button); find("#walks").classList.toggle("films", button.value === "films"); });
}
