import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./scripts.js";

const evidence = Object.fromEntries(["variable", "type", "confidence", "kl", "ratio_mean", "ratio_variance", "shift", "noise_share", "polarity", "distance_errors", "decoder_use", "why"].map((name) => [name, [name, `about ${name}`]]));
const page = load(["core.js", "shell.js", "scores.js", "time.js", "regime.js", "variables.js"], { alpha: { step: 0.005, places: 99 }, many: 64, evidence, metrics: {} });
const ask = (expression) => JSON.parse(JSON.stringify(page.ask(expression)));

test("types are looked up at every place of the slider", () => {
  const own = JSON.stringify({ alpha: 0.1, rules: [{ name: "used", made: "amp", start: "mmm", changes: [[3, "a", [0]], [10, "p", [1, 2]], [12, "m", [0]]] }] });
  const at = (alpha) => ask(`typesAt(${own}, ${alpha}, "used")`).map((type) => type[0]).join("");
  assert.equal(at(0.1), "amp");
  assert.equal(at(0.005), "mmm");
  assert.equal(at(0.02), "amm");
  assert.equal(at(0.055), "app");
  assert.equal(at(0.495), "mpp");
});

test("consecutive variables are told as ranges", () => {
  assert.equal(page.ask("ranges([0, 1, 2, 5, 7, 8])"), "0–2, 5, 7–8");
  assert.equal(page.ask("ranges([1, 3, 5, 7, 9])"), "1, 3, 5, 7, …");
  assert.equal(page.ask("ranges([])"), "");
});

test("reasons that differ in numbers alone are of one kind", () => {
  const kind = (why) => page.ask(`kindOf({ why: ${JSON.stringify(why)} })`);
  assert.equal(kind("mixed: on for 46 ± 1 % of the inputs"), "on for … % of the inputs");
  assert.equal(kind("mixed: on for 39 ± 2 % of the inputs"), kind("mixed: on for 46 ± 1 % of the inputs"));
  assert.equal(kind("passive: posterior = prior"), "posterior = prior");
});

test("labels are pushed apart and stay inside", () => {
  const heights = ask("apart([50, 50, 50, 98], 10, 0, 100)");
  const sorted = [...heights].sort((a, b) => a - b);
  for (let i = 1; i < sorted.length; i++) assert.ok(sorted[i] - sorted[i - 1] >= 10 - 1e-9);
  assert.ok(sorted[sorted.length - 1] <= 100);
});

test("names known come first, in their order", () => {
  assert.deepEqual(ask('inOrder(["own", "mig", "tc"], ["tc", "mig"])'), ["tc", "mig", "own"]);
});
