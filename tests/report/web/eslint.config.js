// Scripts of one page share one scope: what one declares, the others may use.
import { parse } from "espree";
import { names, source } from "./scripts.js";

const declaredIn = (name) => parse(source(name), { ecmaVersion: "latest" }).body.flatMap((node) =>
  node.type === "VariableDeclaration" ? node.declarations.filter((own) => own.id.name).map((own) => own.id.name) : node.id ? [node.id.name] : []);
const declared = Object.fromEntries(names.map((name) => [name, declaredIn(name)]));
const writable = new Set(["model", "variables", "types", "rows", "paper"]);
const browser = ["document", "location", "localStorage", "matchMedia", "IntersectionObserver", "MouseEvent", "URL", "Blob", "fetch", "print", "setTimeout", "clearTimeout", "addEventListener", "innerWidth", "innerHeight", "atob"];
const node = ["console", "URL", "Blob", "Buffer", "setTimeout", "clearTimeout", "process", "atob"];
const rules = {
  "array-callback-return": "error",
  "eqeqeq": "error",
  "no-const-assign": "error",
  "no-constant-condition": "error",
  "no-dupe-keys": "error",
  "no-duplicate-case": "error",
  "no-else-return": "error",
  "no-empty": "error",
  "no-eval": "error",
  "no-fallthrough": "error",
  "no-implied-eval": "error",
  "no-redeclare": "error",
  "no-self-assign": "error",
  "no-undef": "error",
  "no-unreachable": "error",
  "no-unsafe-finally": "error",
  "no-unused-vars": ["error", { vars: "local", args: "after-used", caughtErrors: "all" }],
  "no-use-before-define": ["error", { functions: false, variables: false }],
  "no-useless-rename": "error",
  "no-var": "error",
  "object-shorthand": "error",
  "prefer-const": "error",
  "prefer-template": "error",
};
const known = (list, kind = "readonly") => Object.fromEntries(list.map((name) => [name, kind]));

export default [
  ...names.map((name) => {
    const others = names.filter((other) => other !== name).flatMap((other) => declared[other]).filter((own) => !declared[name].includes(own));
    const shared = Object.fromEntries(others.map((own) => [own, writable.has(own) ? "writable" : "readonly"]));
    return { files: [`src/polarised/report/web/${name}`], languageOptions: { ecmaVersion: "latest", sourceType: "script", globals: { ...known(browser), ...shared } }, rules };
  }),
  { files: ["tests/report/web/*.js"], languageOptions: { ecmaVersion: "latest", sourceType: "module", globals: known(node) }, rules },
];
