// Charts, with uPlot.

const CHART_HEIGHT = 200;
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, i) => 2 ** i);
const ROUND_TIMES = Array.from({ length: 17 }, (_, i) => [10 ** i, 2 * 10 ** i, 5 * 10 ** i]).flat();

function axisStyle(values, more = {}) {
  return {
    stroke: colour("soft"), font: FONT, grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line"), width: 1, size: 5 }, values: (_, ticks) => ticks.map(values), ...more,
  };
}

/** A value of the legend: that below the pointer, if there is one. */
function legendValue(value, format) {
  return value === null || value === undefined ? "" : format(value);
}

/** Legends with squares of these colours, as those of timelines. */
function legendOf(colours) {
  return { markers: { width: 0, fill: (_, i) => colours[i - 1] } };
}

/** A chart that fills its place, and is made anew when the colours or the width change. */
class Chart {
  /** `make(width)` returns uPlot's options and data. */
  constructor(title, make) {
    this.element = element("div", "chart", null, ...(title ? [element("h4", "", title)] : []));
    this.place = element("div");
    this.element.append(this.place);
    this.make = make;
  }

  draw() {
    const [options, data] = this.make(this.place.clientWidth);
    this.plot?.destroy();
    this.plot = new uPlot({ height: CHART_HEIGHT, width: this.place.clientWidth, ...options }, data, this.place);
  }
}

/** Bytes over time of several ways to run one step, on the time axis of the timelines above it. */
class MemoryChart extends Chart {
  /** `ways`: [{label, stroke, time, bytes, end}]. `cap`: a line at so many bytes; null = none. */
  constructor(ways, cap, axis) {
    super("", () => this.options(ways, cap, axis));
    axis.listen(() => this.plot?.setScale("x", { min: axis.from, max: axis.to }));
  }

  options(ways, cap, axis) {
    const highest = Math.max(1, ...ways.flatMap((way) => way.bytes.reduce((a, b) => Math.max(a, b), 0)));
    const lines = ways.map((way) => ({ ...way, stroke: colour(way.stroke) }));
    if (cap !== null && cap < 4 * highest) // a cap far above would flatten the lines
      lines.push({ label: "memory cap", stroke: colour("cap"), dash: [6, 4], time: [0], bytes: [cap], end: axis.end });
    const series = lines.map((line) => ({
      label: line.label, stroke: line.stroke, dash: line.dash, width: 1.75, points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }), value: (_, v) => legendValue(v, bytes),
    }));
    const top = Math.max(highest, ...lines.slice(ways.length).map((line) => line.bytes[0]));
    const options = {
      height: 190, padding: [8, 0, 0, 0], legend: legendOf(lines.map((line) => line.stroke)),
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: false, min: axis.from, max: axis.to, auto: false }, y: { range: [0, top * 1.05] } },
      axes: [
        axisStyle(String, { values: (_, ticks) => ticks.map((t) => tickLabel(t, ticks[1] - ticks[0])), space: 90, size: 30, incrs: ROUND_TIMES }),
        axisStyle(bytes, { size: gutter(), space: 30, incrs: POWERS_OF_TWO }),
      ],
      series: [{ label: "time", value: (_, v) => legendValue(v, duration) }, ...series],
    };
    return [options, onOneTime(lines)];
  }
}

/** The samples of all lines as columns of the same moments; the last value of each lasts until its step ends. */
function onOneTime(lines) {
  const time = [...new Set(lines.flatMap((line) => [...line.time, line.end]))].sort((a, b) => a - b);
  return [time, ...lines.map((line) => {
    let next = 0;
    return time.map((moment) => {
      while (next < line.time.length && line.time[next] <= moment) next += 1;
      if (moment > line.end) return null;
      return next === 0 ? 0 : line.bytes[next - 1];
    });
  })];
}

/** The most that any stage holds at each moment. */
function fullest(memory) {
  return memory.time.map((_, i) => memory.ranks.reduce((most, bytesOf) => Math.max(most, bytesOf[i]), 0));
}

/** Bars of what was predicted by MicroPack; dots of what was measured. */
function loadsChart(title, predicted, measured, fill) {
  return new Chart(title, () => {
    const numbers = predicted.map((_, i) => i);
    const time = (_, v) => legendValue(v, duration);
    const series = [
      { label: "MicroPack", value: (_, v) => legendValue(v, String) },
      { label: "predicted", fill, stroke: fill, width: 0, points: { show: false }, value: time,
        paths: uPlot.paths.bars({ size: [0.75, 60], align: 0 }) },
    ];
    const data = [numbers, predicted];
    if (measured) {
      series.push({ label: "measured", stroke: colour("text"), width: 0, value: time, paths: () => null,
        points: { show: true, size: 6, fill: colour("text"), stroke: colour("page"), width: 1 } });
      data.push(measured);
    }
    const options = {
      scales: { x: { time: false, range: () => [-0.6, predicted.length - 0.4] }, y: { range: (_, low, high) => [0, high * 1.08] } },
      axes: [axisStyle((v) => (Number.isInteger(v) ? grouped(v) : ""), { size: 30 }), axisStyle(duration, { size: 72 })],
      legend: legendOf([fill, colour("text")]),
      series,
    };
    return [options, data];
  });
}

/** A figure by step. `lines`: [{label, values, stroke, dash, dots}], all by the same steps. */
function curveChart(title, steps, lines, format) {
  return new Chart(title, () => {
    const options = {
      scales: { x: { time: false } },
      axes: [axisStyle((v) => (Number.isInteger(v) ? grouped(v) : ""), { size: 30 }), axisStyle(format, { size: 62 })],
      legend: legendOf(lines.map((line) => colour(line.stroke))),
      series: [{ label: "step", value: (_, v) => legendValue(v, grouped) }, ...lines.map((line) => ({
        label: line.label, stroke: colour(line.stroke), width: line.dots ? 0 : 1.75, dash: line.dash, spanGaps: true,
        paths: line.dots ? () => null : undefined,
        points: { show: line.dots || steps.length < 60, size: line.dots ? 8 : 5, fill: colour(line.stroke) },
        value: (_, v) => legendValue(v, format),
      }))],
    };
    return [options, [steps, ...lines.map((line) => line.values)]];
  });
}

/** The charts of a run's metrics. */
function curveCharts(curve) {
  const steps = [...new Set([...curve.step, ...curve.evaluated_step])].sort((a, b) => a - b);
  const at = (of, values) => {
    const known = new Map(of.map((step, i) => [step, values[i]]));
    return steps.map((step) => known.get(step) ?? null);
  };
  const loss = [{ label: "loss", values: at(curve.step, curve.loss), stroke: "accent" }];
  const colours = ["second", "text", "soft", "cap"];
  for (const [i, name] of [...new Set(curve.evaluation_name)].entries()) {
    const ofSet = (values) => values.filter((_, line) => curve.evaluation_name[line] === name);
    loss.push({
      label: name === "" ? "held-out loss" : `held-out loss of ${name}`,
      values: at(ofSet(curve.evaluated_step), ofSet(curve.evaluation_loss)), stroke: colours[i % colours.length], dots: true,
    });
  }
  const predicted = curve.tokens_per_second.map((speed, i) => (speed * curve.step_ns[i]) / Math.max(curve.predicted_ns[i], 1));
  return [
    curveChart("Loss by step", steps, loss, (v) => v.toFixed(3)),
    curveChart("Tokens per second by step", steps, [
      { label: "measured", values: at(curve.step, curve.tokens_per_second), stroke: "accent" },
      { label: "predicted", values: at(curve.step, predicted), stroke: "second", dash: [5, 4] },
    ], human),
  ];
}
