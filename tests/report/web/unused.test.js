import assert from "node:assert/strict";
import test from "node:test";
import { names, source } from "./scripts.js";

test("whatever a script declares for the others is used", () => {
  const whole = names.map(source).join("\n"), declared = [...whole.matchAll(/^(?:const|let|(?:async )?function)\s+(\w+)/gm)].map((found) => found[1]);
  assert.ok(declared.length > 80);
  const unused = declared.filter((name) => (whole.match(new RegExp(`(?<![\\w$]|[^.]\\.)${name}(?![\\w$])`, "g")) || []).length < 2);
  assert.deepEqual(unused, []);
});

test("nothing is made from text that could be markup, and no script is made from text", () => {
  for (const name of names) assert.doesNotMatch(source(name), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, name);
});
