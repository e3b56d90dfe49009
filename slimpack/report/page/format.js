// Quantities as people read them, in the words and the rounding of the program's own tables.

/** Three figures: one decimal below 100. */
function figures(value) {
  return value.toFixed(value < 99.95 ? 1 : 0);
}

function duration(ns) {
  const negative = ns < 0 ? "−" : "";
  ns = Math.abs(ns);
  if (ns < 1e3) return `${negative}${Math.round(ns)} ns`;
  if (ns < 999.5e3) return `${negative}${figures(ns / 1e3)} µs`;
  if (ns < 999.5e6) return `${negative}${figures(ns / 1e6)} ms`;
  if (ns < 59.95e9) return `${negative}${figures(ns / 1e9)} s`;
  const seconds = Math.round(ns / 1e9);
  const two = (n) => String(n).padStart(2, "0");
  if (seconds < 3600) return `${negative}${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
  const minutes = Math.round(ns / 60e9);
  const hours = Math.round(minutes / 60);
  if (minutes >= 24 * 60) return `${negative}${grouped(Math.floor(hours / 24))} d ${two(hours % 24)} h`;
  return `${negative}${Math.floor(minutes / 60)} h ${two(minutes % 60)} m`;
}

/** A point in time, to its thousandth: durations beside it are short. */
function moment(ns) {
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([size]) => ns >= size) ?? [1, "ns"];
  return `${(ns / unit).toFixed(unit === 1 ? 0 : 3)} ${name}`;
}

function scaled(value, base, units) {
  let power = 0;
  while (power + 1 < units.length && value >= base * 0.9995) {
    value /= base;
    power += 1;
  }
  return `${power === 0 ? Math.round(value) : figures(value)} ${units[power]}`.trim();
}

function bytes(count) {
  return scaled(count, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

function human(count) {
  return scaled(count, 1000, ["", "k", "M", "G", "T"]);
}

function share(value) {
  return `${(100 * value).toFixed(1)}%`;
}

function grouped(count) {
  return count.toLocaleString("en-US");
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999);
}

/** A label of an axis whose ticks are `step` apart: as many decimals as tell them apart. */
function tickLabel(ns, step) {
  if (ns === 0) return "0";
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([size]) => step >= size / 100)
    ?? [1, "ns"];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return `${(ns / unit).toFixed(decimals)} ${name}`;
}
