// The scripts of the pages outside a browser: in a document that agrees to everything, with data of the test's own.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
export const folder = path.resolve(here, "../../../src/polarised/report/web");
export const names = fs.readdirSync(folder).filter((name) => name.endsWith(".js"));
export const source = (name) => fs.readFileSync(path.join(folder, name), "utf8");

class Element {
  constructor(tag) {
    Object.assign(this, { tag, children: [], attributes: {}, dataset: {}, listeners: {}, options: [], value: "", hidden: false });
    Object.assign(this, { clientWidth: 700, clientHeight: 400, offsetWidth: 10, offsetHeight: 10, scrollWidth: 700, scrollHeight: 400, scrollLeft: 0 });
    this.style = { setProperty() {} };
    this.classList = { add() {}, remove() {}, toggle() {}, contains: () => false };
  }
  get valueAsNumber() { return Number(this.value); }
  get parentNode() { return new Element("p"); }
  append(...children) { this.children.push(...children); }
  prepend(...children) { this.children.unshift(...children); }
  before() {}
  replaceChildren(...children) {
    this.children = this.options = children;
    if (children[0] && children[0].tag === "option") this.value = children[0].value;
  }
  setAttribute(name, value) { this.attributes[name] = value; if (name === "value") this.value = value; }
  getAttribute(name) { return this.attributes[name]; }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  querySelectorAll() { return []; }
  getBoundingClientRect() { return { left: 0, right: 1, top: 0, bottom: 1, width: 1 }; }
  closest() { return null; }
  matches() { return false; }
  scrollIntoView() {}
  click() {}
  remove() {}
}
export const textOf = (node) => (typeof node === "string" ? node : node && node.children ? (node.textContent || node.children.flat().map(textOf).join(" ")) : "");

// Runs code in such a document; `ask` evaluates an expression there, `shown` is the text of each element looked up.
export function open(code, data) {
  const known = new Map(), holder = new Element("script");
  holder.textContent = typeof data === "string" ? data : JSON.stringify(data);
  const lookUp = (selector) => { if (!known.has(selector)) known.set(selector, new Element(selector)); return known.get(selector); };
  Element.prototype.querySelector = lookUp;
  const document = { getElementById: () => holder, createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag), querySelector: lookUp, querySelectorAll: () => [], body: new Element("body"), documentElement: new Element("html"), addEventListener() {} };
  const context = { document, innerWidth: 1200, innerHeight: 800, addEventListener() {}, setTimeout, clearTimeout, console, localStorage: { getItem: () => null, setItem() {} }, matchMedia: () => ({ matches: false }), location: { pathname: "/" }, URL, Blob, atob, IntersectionObserver: class { observe() {} disconnect() {} }, MouseEvent: class {}, print() {}, fetch: () => Promise.reject(new TypeError("no server")) };
  vm.createContext(context);
  vm.runInContext(code, context);
  return { ask: (expression) => vm.runInContext(`(${expression})`, context), shown: () => Object.fromEntries([...known].map(([selector, element]) => [selector, textOf(element)])) };
}

// The library's own words for types, representations and series, as every page has them.
export const looks = {
  types: { active: { letter: "A", marker: "o", dash: "" }, mixed: { letter: "M", marker: "D", dash: "6 3" }, passive: { letter: "P", marker: "o", dash: "2 3" } },
  representations: { mean: { title: "mean", marker: "X", dash: "6 3" }, sampled: { title: "sampled", marker: "o", dash: "" } },
  series: [{ letter: "a", marker: "o", dash: "" }, { letter: "b", marker: "s", dash: "6 3" }],
  verdicts: { confirmed: "✓", refuted: "✕", undecided: "?", "not testable": "–" },
};
export const load = (files, data = {}) => open(files.map(source).join("\n"), { looks, subsets: { full: "all variables" }, ...data });
