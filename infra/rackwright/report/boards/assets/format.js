// Numbers with their units, and names of series.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DECIMAL = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Return a value of Prometheus as text. NaN, as of a division by zero, is a dash. */
export function format(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  switch (unit) {
    case "share": return `${plain(100 * value, 1)} %`;
    case "percent": return `${plain(value, 1)} %`;
    case "yes or no": return value === 1 ? "yes" : value === 0 ? "no" : plain(value, 2);
    case "seconds": return duration(value);
    case "bytes": return scaled(value, 1024, BINARY);
    case "bytes/s": return `${scaled(value, 1000, DECIMAL)}/s`;
    case "per second": return `${plain(value, 2)}/s`;
    case "celsius": return `${plain(value, 1)} °C`;
    case "watts": return `${plain(value, 1)} W`;
    default: return plain(value, 2);
  }
}

function plain(value, digits) {
  const size = Math.abs(value);
  const shown = size !== 0 && size < 10 ** -digits ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: digits };
  return value.toLocaleString("en", shown);
}

function scaled(value, base, names) {
  let power = 0;
  while (Math.abs(value) >= base && power < names.length - 1) {
    value /= base;
    power += 1;
  }
  return `${plain(value, power ? 1 : 0)} ${names[power]}`;
}

function duration(value) {
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${plain(value * 1e6, 0)} µs`;
  if (size < 1) return `${plain(value * 1e3, size < 0.1 ? 1 : 0)} ms`;
  if (size < 120) return `${plain(value, size < 10 ? 1 : 0)} s`;
  if (size < 7200) return `${plain(value / 60, 0)} min`;
  if (size < 172800) return `${plain(value / 3600, 1)} h`;
  return `${plain(value / 86400, 1)} days`;
}

/** Return the name of a series: `<label>` in the template is replaced by the label, or by nothing. */
export function legend(template, labels) {
  return template.replace(/<([A-Za-z_]\w*)>/g, (_, name) => labels[name] ?? "").replace(/\s+/g, " ").trim() || "–";
}

/** Return all labels as Prometheus prints a series. */
export function series(labels) {
  const pairs = Object.entries(labels).filter(([name]) => name !== "__name__").map(([name, value]) => `${name}="${value}"`);
  return `${labels.__name__ ?? ""}${pairs.length ? `{${pairs.join(", ")}}` : ""}` || "–";
}

/** Return whether a value is one that the panel marks as bad. */
export function isBad(value, alarm) {
  return Boolean(alarm) && (alarm.above ? value > alarm.limit : value < alarm.limit);
}
