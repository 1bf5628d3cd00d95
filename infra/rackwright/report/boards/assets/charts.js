// Lines over time, drawn by uPlot.

import { format, isBad } from "./format.js";

const COLOURS = ["#3987e5", "#d95926", "#1f9e73", "#c98500", "#b55fe6", "#d55181", "#5a8f1e", "#00a0b0", "#8a7b66", "#7c6ff0"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
/** Series of one chart; more cannot be distinguished. */
export const MOST = 40;
const HEIGHT = 190;
const drawn = new Set();

/** Return series as [{name, values: Map(time, value), last}], the highest last value first, or the lowest where low values are bad. */
export function sorted(found, alarm) {
  const sign = alarm && !alarm.above ? -1 : 1;
  const last = one => (Number.isNaN(one.last) ? -Infinity : sign * one.last);
  return found.sort((a, b) => last(b) - last(a) || a.name.localeCompare(b.name, "en", { numeric: true }));
}

/** Draw into an element. `times`: seconds since 1970, evenly spaced. `runs`: ends of runs of rackwright, as [{time, name}]. `total`: series of which `all` may be a part. */
export function draw(element, { unit, alarm, title }, { times, runs }, all, total) {
  const shown = all.slice(0, MOST).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const chart = document.createElement("div");
  chart.className = "chart";
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", `${title}: ${shown.length} lines; the list below has the last values`);
  const { list, show } = legendOf(shown, unit, alarm);
  element.replaceChildren(chart, list);
  const many = Math.max(total, all.length);
  if (many > MOST) element.append(note(`the ${MOST} ${alarm && !alarm.above ? "lowest" : "highest"} of ${many} series; choose a node for all of its own`));
  const style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const options = {
    width: chart.clientWidth || 500,
    height: HEIGHT,
    legend: { show: false },
    cursor: { points: { size: 6 }, sync: { key: "time" }, drag: { x: false, y: false } },
    scales: { x: { range: [times[0], times[times.length - 1]] }, y: { range: limits } },
    axes: [
      { ...axis, values: (_, splits) => splits.map((time, index) => clock(time, splits[index - 1])) },
      { ...axis, size: 72, incrs: steps(unit), values: (_, splits) => splits.map(value => format(value, unit)) },
    ],
    series: [{}, ...shown.map((one, index) => ({ label: one.name, ...look(index), width: 1.6, points: { show: one.values.size === 1 } }))],
    hooks: { setCursor: [plot => show(plot.cursor.idx)], draw: [plot => { limitLine(plot, alarm, colour("--bad")); runLines(plot, runs, colour("--accent")); }] },
  };
  const rows = shown.map(one => times.map(time => finite(one.values.get(time))));
  const plot = new uPlot(options, [times, ...rows], chart);
  show.rows = rows;
  const observer = new ResizeObserver(() => plot.setSize({ width: chart.clientWidth, height: HEIGHT }));
  observer.observe(chart);
  const one = { element, end() { observer.disconnect(); plot.destroy(); } };
  drawn.add(one);
}

/** Release the charts of elements that are no longer on the page, or are drawn again. */
export function release(element) {
  for (const one of drawn) {
    if (one.element === element || !one.element.isConnected) {
      one.end();
      drawn.delete(one);
    }
  }
}

/** Return a number that can be drawn; NaN would leave the axis without limits, and all lines undrawn. */
function finite(value) {
  return Number.isFinite(value) ? value : null;
}

/** Return the limits of the y axis: from zero, unless a value is negative. */
function limits(_, least, most) {
  if (least === null || most === null) return [0, 1];
  const space = (most - Math.min(least, 0)) * 0.08;
  return [least < 0 ? least - space : 0, most > 0 ? most + space : least < 0 ? space : 1];
}

/** Return the time of an axis; the first one of a day also has its date. */
function clock(time, before) {
  const [moment, earlier] = [new Date(time * 1000), new Date((before ?? 0) * 1000)];
  const day = moment.toDateString() === earlier.toDateString() ? "" : `\n${moment.toLocaleDateString("sv-SE")}`;
  return moment.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) + day;
}

/** Return the distances that ticks may have: whole numbers of what is counted, powers of two of bytes. */
function steps(unit) {
  if (unit === "bytes") return Array.from({ length: 50 }, (_, power) => 2 ** power);
  const whole = unit === "count" || unit === "yes or no";
  const powers = Array.from({ length: whole ? 12 : 24 }, (_, power) => 10 ** (power - (whole ? 0 : 12)));
  return powers.flatMap(power => [power, 2 * power, 5 * power]);
}

function look(index) {
  return { stroke: COLOURS[index % COLOURS.length], dash: DASHES[Math.floor(index / COLOURS.length) % DASHES.length] };
}

function limitLine(plot, alarm, colour) {
  if (!alarm || alarm.limit <= plot.scales.y.min || alarm.limit > plot.scales.y.max) return;
  const y = Math.round(plot.valToPos(alarm.limit, "y", true));
  plot.ctx.save();
  plot.ctx.strokeStyle = colour;
  plot.ctx.setLineDash([6, 5]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(plot.bbox.left, y);
  plot.ctx.lineTo(plot.bbox.left + plot.bbox.width, y);
  plot.ctx.stroke();
  plot.ctx.restore();
}

function runLines(plot, runs, colour) {
  plot.ctx.save();
  Object.assign(plot.ctx, { strokeStyle: colour, fillStyle: colour, font: `${11 * devicePixelRatio}px system-ui, sans-serif`, textBaseline: "top" });
  plot.ctx.setLineDash([3, 4]);
  const names = [...new Set(runs.map(run => run.name))];
  for (const { time, name } of runs) {
    const x = Math.round(plot.valToPos(time, "x", true));
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, plot.bbox.top);
    plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
    plot.ctx.stroke();
    const right = x > plot.bbox.left + plot.bbox.width / 2;
    plot.ctx.textAlign = right ? "right" : "left";
    plot.ctx.fillText(name, x + (right ? -4 : 4), plot.bbox.top + (1 + 13 * names.indexOf(name)) * devicePixelRatio);
  }
  plot.ctx.restore();
}

/** Return a list of names with values, and a function that shows those of one point in time, or the last ones. */
function legendOf(shown, unit, alarm) {
  const list = document.createElement("ul");
  list.className = "legend";
  const cells = shown.map((one, index) => {
    const item = document.createElement("li");
    const value = document.createElement("b");
    item.append(sample(look(index)), one.name, value);
    list.append(item);
    return value;
  });
  function show(at) {
    cells.forEach((cell, index) => {
      const value = at === null || at === undefined ? shown[index].last : show.rows[index][at];
      cell.textContent = format(value, unit);
      cell.className = isBad(value, alarm) ? "bad" : "";
    });
  }
  show(null);
  return { list, show };
}

function sample({ stroke, dash }) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const marks = { x1: 0, x2: 18, y1: 2, y2: 2, stroke, "stroke-width": 3, "stroke-dasharray": dash.join(" ") };
  for (const [name, value] of Object.entries(marks)) line.setAttribute(name, value);
  svg.setAttribute("aria-hidden", "true");
  svg.append(line);
  return svg;
}

export function note(text) {
  const element = document.createElement("p");
  element.className = "dim";
  element.textContent = text;
  return element;
}
