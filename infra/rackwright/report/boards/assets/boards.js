// The page: tabs, settings, and panels that are read from Prometheus again and again.

import { draw, note, release, sorted } from "./charts.js";
import { format, legend, series } from "./format.js";
import { element, numbers, rows, table } from "./tables.js";

const POINTS = 240;
const LEAST_PAUSE = 10;
const VIEWS = [["alerts", "Alerts and targets"], ["query", "Query"]];
const find = id => document.getElementById(id);
let page = null;
let running = null;
let timer = 0;

/** Return the JSON of a daemon; throw an Error with its own message, or with that of the server. */
async function read(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  const answer = await fetch(`${path}${query ? `?${query}` : ""}`, { signal: running.signal });
  const text = await answer.text();
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || `status ${answer.status}`);
  }
  if (!answer.ok) throw new Error(found.error ?? `status ${answer.status}`);
  return found;
}

const prometheus = async (path, parameters) => (await read(`prometheus/api/v1/${path}`, parameters)).data;

/** Return the state of the page, which its address holds: board, time range in seconds, node, expression. */
function state() {
  const given = new URLSearchParams(location.hash.slice(1));
  const names = [...page.boards.map(board => board.name), ...VIEWS.map(([name]) => name)];
  const board = names.includes(given.get("board")) ? given.get("board") : names[0];
  const node = page.nodes.includes(given.get("node")) ? given.get("node") : "";
  const range = [...find("range").options].some(one => one.value === given.get("range")) ? Number(given.get("range")) : 3600;
  return { board, node, range, expr: given.get("expr") ?? "" };
}

function go(changed) {
  const { board, node, range, expr } = { ...state(), ...changed };
  location.hash = new URLSearchParams({ board, range, ...(node ? { node } : {}), ...(expr ? { expr } : {}) }).toString();
}

const quoted = text => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\\/g, "\\\\");

/** Return the PromQL of a panel: placeholders are replaced as rackwright.catalog.boards describes. */
function expression(panel, { node }, step) {
  const seconds = Math.max(4 * page.interval_s, step + page.interval_s);
  return panel.expr.replaceAll("$__rate_interval", `${seconds}s`).replaceAll("$node", node ? quoted(node) : ".+");
}

/** Return the step and the times of a range, which end now. */
function grid(range) {
  const step = Math.max(page.interval_s, Math.ceil(range / POINTS));
  const end = Math.floor(Date.now() / 1000 / step) * step;
  const count = Math.floor(range / step);
  return { step, times: Array.from({ length: count + 1 }, (_, index) => end - (count - index) * step) };
}

function parsed(result, name, alarm) {
  return sorted(result.map(one => {
    const samples = one.values ?? [one.value];
    const values = new Map(samples.map(([time, text]) => [Number(time), Number(text)]));
    return { name: name(one.metric), values, last: Number(samples[samples.length - 1][1]) };
  }), alarm);
}

async function latest(expr, name, alarm) {
  return parsed((await prometheus("query", { query: expr })).result, name, alarm);
}

async function overTime(expr, name, { step, times }, alarm) {
  const span = { start: times[0], end: times[times.length - 1], step };
  return parsed((await prometheus("query_range", { query: expr, ...span })).result, name, alarm);
}

function section(kind, title) {
  const made = element("section", [element("h3", title), element("div", [], { class: "drawn" })], { class: kind, "data-state": "loading" });
  return made;
}

/** Fill a panel. Its state is data, empty or error. */
async function fill(part, work) {
  const target = part.querySelector(".drawn");
  try {
    const found = await work(target);
    part.dataset.state = found ? "data" : "empty";
    if (!found) {
      release(target);
      target.replaceChildren(note("no data"));
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    release(target);
    part.dataset.state = "error";
    target.replaceChildren(element("p", error.message, { class: "bad" }));
    if (error instanceof TypeError) throw new Error("no answer: does `rackwright monitor` still run?");
  }
}

async function fillPanel(part, panel, now, span) {
  const expr = expression(panel, now, span.step);
  const name = labels => legend(panel.legend, labels);
  await fill(part, async target => {
    const found = panel.form === "lines" ? await overTime(expr, name, span, panel.alarm) : await latest(expr, name, panel.alarm);
    if (!found.length) return false;
    if (panel.form === "lines") {
      release(target);
      draw(target, panel, span, found);
    } else target.replaceChildren(...(panel.form === "value" ? numbers : rows)(panel, found));
    return true;
  });
}

const age = moment => format((Date.now() - Date.parse(moment)) / 1000, "seconds");

async function fillAlerts(part) {
  await fill(part, async target => {
    const { alerts } = await prometheus("alerts");
    const order = { critical: 0, warning: 1, none: 2 };
    alerts.sort((a, b) => a.state.localeCompare(b.state) || (order[a.labels.severity] ?? 1) - (order[b.labels.severity] ?? 1) || b.activeAt.localeCompare(a.activeAt));
    const body = alerts.map(one => [
      { text: one.state, class: "word" },
      { text: one.labels.severity ?? "", class: `word ${one.labels.severity === "critical" ? "bad" : one.labels.severity === "warning" ? "warning" : "dim"}` },
      { text: one.labels.alertname, class: "word" }, { text: one.labels.instance ?? "", class: "word" }, { text: age(one.activeAt), class: "word" },
      one.annotations.summary ?? "", one.annotations.remedy ?? "",
    ]);
    target.replaceChildren(table(["state", "severity", "alert", "node", "for", "what", "what to do"], body));
    return alerts.length > 0;
  });
}

async function fillTargets(part) {
  await fill(part, async target => {
    const { activeTargets: found } = await prometheus("targets", { state: "active" });
    const body = found.map(one => [
      one.labels.job, one.labels.instance, { text: one.health, class: one.health === "up" ? "good" : "bad" },
      { text: `${age(one.lastScrape)} ago`, class: "word" }, { text: format(one.lastScrapeDuration, "seconds"), class: "word" }, one.lastError,
    ]);
    target.replaceChildren(table(["job", "node", "health", "read", "took", "error"], body));
    return found.length > 0;
  });
}

async function fillQuery(parts, expr, span) {
  await fill(parts[0], async target => {
    const { resultType, result } = await prometheus("query", { query: expr });
    const single = resultType === "scalar" || resultType === "string";
    const found = single ? [["", result[1]]] : result.map(one => [series(one.metric), (one.value ?? one.values[one.values.length - 1])[1]]);
    target.replaceChildren(table(["series", { text: "value", class: "number-cell" }], found.map(([name, text]) => [name, { text, class: "number-cell" }])));
    return found.length > 0;
  });
  await fill(parts[1], async target => {
    const found = await overTime(expr, series, span);
    release(target);
    if (found.length) draw(target, { unit: "count", alarm: null, title: expr }, span, found);
    return found.length > 0;
  });
}

/** Return when runs of rackwright ended in a span, as [{time, name}]: the value of their metric is that time. */
async function runsIn({ step, times }) {
  const [start, end] = [times[0], times[times.length - 1]];
  const found = await Promise.all(Object.entries(page.runs).map(async ([name, metric]) => {
    const { result } = await prometheus("query_range", { query: metric, start, end, step });
    const ended = new Set(result.flatMap(one => one.values.map(([, text]) => Number(text))));
    return [...ended].filter(time => time >= start && time <= end).map(time => ({ time, name }));
  }));
  return found.flat();
}

/** Write how many alerts fire, on every board. */
async function countAlarms() {
  const { alerts } = await prometheus("alerts");
  const firing = severity => alerts.filter(one => one.state === "firing" && one.labels.severity === severity).length;
  const [critical, warning] = [firing("critical"), firing("warning")];
  const text = critical || warning ? `${critical} critical, ${warning} warnings fire` : "no alert fires";
  const link = element("a", text, { href: `#${new URLSearchParams({ board: "alerts", range: state().range })}` });
  find("alarms").className = critical ? "bad" : warning ? "warning" : "good";
  find("alarms").replaceChildren(link);
}

/** Lay out the chosen board; return a function that reads its data. */
function layOut(now) {
  const board = page.boards.find(one => one.name === now.board);
  if (board) {
    const parts = board.panels.map(panel => section(panel.form, panel.title));
    find("board").dataset.values = board.panels.filter(panel => panel.form === "value").length > 4 ? "many" : "few";
    find("board").replaceChildren(...parts);
    return span => board.panels.map((panel, index) => fillPanel(parts[index], panel, now, span));
  }
  if (now.board === "alerts") {
    const parts = [section("full", "Alerts"), section("full", "Targets")];
    find("board").replaceChildren(...parts);
    return () => [fillAlerts(parts[0]), fillTargets(parts[1])];
  }
  const parts = [section("full", "Now"), section("full", "Over time")];
  find("board").replaceChildren(asked(now.expr), ...(now.expr ? parts : []));
  return span => (now.expr ? [fillQuery(parts, now.expr, span)] : []);
}

function asked(expr) {
  const input = element("input", [], { name: "expr", "aria-label": "PromQL", placeholder: "PromQL, such as  up == 0", value: expr, autocomplete: "off", spellcheck: "false" });
  const form = element("form", [input, element("button", "Run")], { id: "ask" });
  form.addEventListener("submit", event => {
    event.preventDefault();
    if (input.value.trim() === state().expr) show();
    else go({ expr: input.value.trim() });
  });
  return element("section", [form], { class: "full", "data-state": "data" });
}

/** Show the board of the address, and read it again while the page is visible. */
async function show() {
  clearTimeout(timer);
  running?.abort();
  running = new AbortController();
  const mine = running;
  const now = state();
  find("range").value = String(now.range);
  find("node").value = now.node;
  for (const link of find("tabs").children) link.toggleAttribute("aria-current", link.dataset.board === now.board);
  for (const link of find("tabs").children) if (link.dataset.board === now.board) link.setAttribute("aria-current", "page");
  const work = layOut(now);
  release(null);
  async function again() {
    if (!document.hidden) await refresh(work, now.range, mine);
    if (!mine.signal.aborted) timer = setTimeout(() => (find("refresh").checked ? again() : wait()), 1000 * Math.max(page.interval_s, LEAST_PAUSE));
  }
  function wait() {
    timer = setTimeout(() => (find("refresh").checked ? again() : wait()), 1000);
  }
  await again();
}

async function refresh(work, range, mine) {
  try {
    const span = grid(range);
    const [runs] = await Promise.all([runsIn(span), countAlarms()]);
    await Promise.all(work({ ...span, runs }));
    find("trouble").hidden = true;
    find("read").textContent = `read at ${new Date().toLocaleTimeString("en-GB")}`;
  } catch (error) {
    if (mine.signal.aborted) return;
    find("trouble").textContent = error instanceof TypeError ? "no answer: does `rackwright monitor` still run?" : error.message;
    find("trouble").hidden = false;
  }
}

async function start() {
  running = new AbortController();
  page = await read("boards.json");
  document.title = `${page.stack}: metrics and alerts`;
  find("stack").textContent = page.stack;
  find("node").append(...page.nodes.map(name => element("option", name, { value: name })));
  const tabs = [...page.boards.map(board => [board.name, board.title]), ...VIEWS];
  find("tabs").replaceChildren(...tabs.map(([name, title]) => element("a", title, { href: "#", "data-board": name })));
  find("tabs").addEventListener("click", event => {
    const name = event.target.dataset?.board;
    if (!name) return;
    event.preventDefault();
    go({ board: name });
  });
  for (const id of ["range", "node"]) find(id).addEventListener("change", () => go({ [id]: find(id).value }));
  find("settings").addEventListener("submit", event => event.preventDefault());
  addEventListener("hashchange", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  await show();
}

start().catch(error => {
  find("trouble").textContent = `the page could not be loaded: ${error.message}`;
  find("trouble").hidden = false;
});
