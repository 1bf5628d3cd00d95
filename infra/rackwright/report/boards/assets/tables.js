// Numbers and tables. Texts of a cluster are set as text, never as HTML.

import { format, isBad } from "./format.js";

/** Return an element with text or children. */
export function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...(Array.isArray(content) ? content : [content]));
  return made;
}

/** Return the latest numbers of a panel, large. */
export function numbers(panel, found) {
  return found.map(one => element("p", [
    element("span", format(one.last, panel.unit), { class: `number ${mark(one.last, panel.alarm)}` }),
    element("span", ` ${one.name}`, { class: "dim" }),
  ]));
}

/** Return the latest number of each series as a table. */
export function rows(panel, found) {
  const body = found.map(one => [one.name, { text: format(one.last, panel.unit), class: `number-cell ${mark(one.last, panel.alarm)}` }]);
  return [table(null, body)];
}

/** Return a table; a cell is a text, or {text, class}. */
export function table(heads, body) {
  const cell = (kind, one) => (typeof one === "object" ? element(kind, one.text, { class: one.class }) : element(kind, one));
  const parts = [element("tbody", body.map(row => element("tr", row.map(one => cell("td", one)))))];
  if (heads) parts.unshift(element("thead", [element("tr", heads.map(one => cell("th", one)))]));
  return element("div", [element("table", parts)], { class: "scroll", tabindex: "0" });
}

/** Return the class of a value; one that is no number is neither good nor bad. */
function mark(value, alarm) {
  return alarm && !Number.isNaN(value) ? (isBad(value, alarm) ? "bad" : "good") : "";
}
