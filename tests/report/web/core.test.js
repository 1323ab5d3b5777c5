import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./scripts.js";

const page = load(["core.js"]);
const ask = (expression) => { const answer = page.ask(expression); return answer !== null && typeof answer === "object" ? JSON.parse(JSON.stringify(answer)) : answer; };

test("numbers are written for people", () => {
  assert.equal(ask("number(0.12345)"), "0.12");
  assert.equal(ask("number(-3)"), "−3");
  assert.equal(ask("number(0.0001)"), "<0.001");
  assert.equal(ask("number(null)"), "–");
  assert.equal(ask("number(Infinity)"), "∞");
  assert.equal(ask("number(2.5e7 + 0.5)"), "2.50e+7");
  assert.equal(ask("percent(0.666)"), "67 %");
  assert.equal(ask("counted(1, 'run')"), "1 run");
  assert.equal(ask("counted(1500, 'run')"), "1,500 runs");
});

test("what JSON lacks comes back", () => {
  assert.deepEqual(page.ask(`Object.values(JSON.parse('{"a": "inf", "b": "nan", "c": "-inf", "d": "x"}', revive)).map(String)`).join(), "Infinity,null,-Infinity,x");
});

test("ticks are round and cover the range", () => {
  assert.deepEqual(ask("ticks(0, 10, 5)"), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ask("ticks(-0.3, 0.3, 3)"), [-0.2, 0, 0.2]);
  assert.ok(ask("ticks(3, 3, 4)").length >= 1);
});

test("ticks of a root scale stand apart", () => {
  const [places, kept] = ask("(() => { const x = rootScale(1.1, 40, 300), kept = rootTicks(1.1, x, 27); return [kept.map(x), kept]; })()");
  assert.ok(kept.includes(0) && kept.includes(1));
  places.sort((a, b) => a - b);
  for (let i = 1; i < places.length; i++) assert.ok(places[i] - places[i - 1] >= 27);
});

test("a table leaves as CSV without formulas", () => {
  const table = JSON.stringify({ columns: ["name", "value"], rows: [["=1+1", 0.5], ['say "a, b"', null], ["-x", -2]] });
  assert.equal(page.ask(`csv(${table})`), 'name,value\r\n\'=1+1,0.5\r\n"say ""a, b""",\r\n\'-x,-2\r\n');
});

test("unknown values are last in both directions", () => {
  assert.deepEqual(ask("sorted([2, null, 1], (v) => v, false)"), [1, 2, null]);
  assert.deepEqual(ask("sorted([2, null, 1], (v) => v, true)"), [2, 1, null]);
});

test("packed columns are what they were", () => {
  const numbers = Buffer.from(Float32Array.from([0.5, NaN, Infinity]).buffer).toString("base64");
  const words = Buffer.from(Uint16Array.from([1, 0, 1]).buffer).toString("base64"), wide = Buffer.from(Uint32Array.from([0, 1, 1]).buffer).toString("base64");
  const table = { columns: ["kl", "why", "doubtful", "far"], count: 3, packed: { kl: { numbers }, why: { words: ["off", "on"], index: words }, doubtful: { words: ["false", "true"], index: words, flags: true }, far: { words: ["a", "b"], index: wide } } };
  assert.equal(page.ask(`rowsOf(${JSON.stringify(table)}).map((row) => row.map(String).join()).join("|")`), "0.5,on,true,a|null,off,false,b|Infinity,on,true,b");
  assert.deepEqual(ask("rowsOf(null)"), []);
});

test("extremes of a hundred thousand numbers are found", () => {
  assert.deepEqual(ask("extent(Array.from({ length: 300000 }, (_, i) => i % 1000))"), [0, 999]);
});

test("every marker of the library has a shape of its own", () => {
  const paths = ask('["o", "s", "^", "D", "v", "P", "X"].map((name) => markPath(name, 0, 0, 1))');
  assert.equal(new Set(paths).size, 7);
});
