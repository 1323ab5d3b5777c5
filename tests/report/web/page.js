// node page.js page.html "expression": prints what the expression gives on a page, and the text of what it looked up.
import fs from "node:fs";
import { open } from "./scripts.js";

const [, , file, expression] = process.argv, page = fs.readFileSync(file, "utf8");
const inside = (pattern) => page.match(pattern)[1];
const opened = open(inside(/<script>([\s\S]*?)<\/script>/), inside(/<script type="application\/json" id="data">([\s\S]*?)<\/script>/));
console.log(JSON.stringify({ answer: opened.ask(expression), shown: opened.shown() }));
