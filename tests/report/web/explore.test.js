import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./scripts.js";

const variables = [0, 1].map((variable) => ({ variable, type: "active", kl: 1 }));
const page = load(["core.js", "explore.js"], { shows: "picture", latents: 2, prior: "p(z|u)", variables, reach: [3, 3], points: [[0, 0], [1, 1], [2, 2]] });
const settle = () => new Promise((resolve) => { setTimeout(resolve, 5); });

test("a code is drawn for the input that is shown", async () => {
  page.ask(`(() => {
    globalThis.asked = [];
    const answers = { "inputs/2": { mean: [2, 2], original: "data:" }, "draws/2": { z: [0.5, -1] } };
    fetch = async (path) => { asked.push(path); const known = answers[path.slice(1)]; return { ok: Boolean(known), text: async () => (known ? JSON.stringify(known) : "no picture"), blob: async () => null }; };
  })()`);
  page.ask('encode("2")');
  await settle();
  page.ask('find("#draw").listeners.click()');
  await settle();
  assert.ok(page.ask("asked.includes('/draws/2')"));
  assert.equal(page.ask("code.join()"), "0.5,-1");
});
