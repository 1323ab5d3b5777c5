// Runs the scripts of a page in a document that agrees to everything: node page_in_node.js page.html "expression".
// Prints what the expression gives and the text of every element the page looked up.
const fs = require("fs"), vm = require("vm");
const page = fs.readFileSync(process.argv[2], "utf8");
const json = page.match(/<script type="application\/json" id="data">([\s\S]*?)<\/script>/)[1];
const script = page.match(/<script>([\s\S]*?)<\/script>/)[1];
class El {
  constructor(tag) { this.tag = tag; this.children = []; this.attributes = {}; this.dataset = {}; this.style = { setProperty() {} }; this.classList = { add() {}, remove() {}, toggle() {}, contains() { return false; } }; this.listeners = {}; this.options = []; this.clientWidth = 700; this.offsetWidth = 10; this.offsetHeight = 10; this.value = this.attributes.value || ""; this.hidden = false; }
  get valueAsNumber() { return Number(this.value); }
  get parentNode() { return new El("p"); }
  get firstChild() { return this.children[0]; }
  append(...c) { this.children.push(...c); }
  prepend(...c) { this.children.unshift(...c); }
  replaceChildren(...c) {
    this.children = c;
    this.options = c;
    if (c[0] && c[0].tag === "option") this.value = c[0].value;
  }
  setAttribute(n, v) { this.attributes[n] = v; if (n === "value") this.value = v; }
  getAttribute(n) { return this.attributes[n]; }
  removeAttribute() {}
  addEventListener(n, f) { this.listeners[n] = f; }
  querySelector(s) { return lookup(s); }
  querySelectorAll() { return []; }
  getBoundingClientRect() { return { left: 0, right: 1, top: 0, bottom: 1, width: 1 }; }
  closest() { return null; } matches() { return false; } click() {} remove() {} focus() {} scrollIntoView() {}
  getContext() { return new Proxy({}, { get: () => () => ({ data: [] }) }); }
  get innerHTML() { return ""; }
}
const known = new Map();
function lookup(s) { if (!known.has(s)) known.set(s, new El(s)); return known.get(s); }
const data = new El("script"); data.textContent = json;
const doc = { getElementById: () => data, createElement: (t) => new El(t), createElementNS: (n, t) => new El(t), querySelector: lookup, querySelectorAll: () => [], body: new El("body"), documentElement: new El("html"), addEventListener() {}, title: "" };
const ctx = { document: doc, innerWidth: 1200, innerHeight: 800, addEventListener() {}, removeEventListener() {}, setTimeout, clearTimeout, console, localStorage: { getItem() { return null; }, setItem() {} }, matchMedia: () => ({ matches: false, addEventListener() {} }), location: { hash: "" }, URL, Blob, atob, Uint8Array, Int16Array, DataView, IntersectionObserver: class { observe() {} disconnect() {} }, MouseEvent: class {}, requestAnimationFrame: (f) => 0, getComputedStyle: () => ({ getPropertyValue: () => "" }), print() {}, history: { replaceState() {} } };
ctx.window = ctx; ctx.globalThis = ctx;
vm.createContext(ctx);
vm.runInContext(`${script}\n;globalThis.ANSWER = (${process.argv[3]})`, ctx);
const text = (e) => (typeof e === "string" ? e : e && e.children ? e.children.flat().map(text).join(" ") : "");
const shown = Object.fromEntries([...known].map(([selector, element]) => [selector, element.textContent || text(element)]));
console.log(JSON.stringify({ answer: ctx.ANSWER, shown }));
