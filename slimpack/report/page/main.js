// Puts the page together.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/** Which MicroPacks a kind of span works on, its letter, and the colour of text on it. */
function describeKinds(kinds) {
  const known = {
    forward: ["forward", "F"], embedding: ["forward", "E"], backward: ["backward", "B"], input_gradient: ["backward", "I"],
    weight_gradient: ["backward", "W"], head: ["backward", "H"], embedding_gradient: ["backward", "G"],
  };
  const onDark = ["forward", "head", "optimizer"];
  for (const kind of kinds) {
    [kind.pass, kind.letter] = known[kind.name] ?? [null, ""];
    kind.ink = onDark.includes(kind.name) ? "#ffffff" : "#1c2128";
  }
}

/** Legend and buttons above a group of timelines. */
function controls(timelines, axis) {
  const legend = element("div", "legend");
  const present = new Set(timelines.flatMap((timeline) => timeline.data.rows.flatMap((row) => [...new Set(row.kind)])));
  for (const kind of data.kinds.filter((kind, i) => kind.colour && present.has(i))) {
    const box = element("i");
    box.style.background = kind.colour;
    legend.append(element("span", "", null, box, kind.title));
  }
  const button = (text, label, action) => {
    const made = element("button", "", text);
    made.setAttribute("aria-label", label);
    made.addEventListener("click", action);
    return made;
  };
  const buttons = element("div", "buttons", null, button("+", "zoom in", () => axis.zoom(0.5)),
    button("−", "zoom out", () => axis.zoom(2)), button("all", "show all", () => axis.reset()));
  return element("div", "bar", null, legend, buttons);
}

/** Timelines one below the other on one time axis. `shown`: [[title, timeline, packs], …]. Returns their axis. */
function timelineGroup(place, shown, redraws) {
  const axis = new TimeAxis(Math.max(...shown.map(([, timeline]) => timeline.makespan_ns)));
  const hover = (span, event) => {
    showTooltip(span, event, data.documents);
    // MicroPacks of another plan have other numbers.
    for (const timeline of timelines) timeline.mark(span && timeline.packs === span.packs ? span : null);
  };
  const timelines = shown.map(([title, timeline, packs]) => new Timeline(title, timeline, packs, data.kinds, axis,
    (span, event) => hover(span && { ...span, packs }, event)));
  const ticks = element("canvas", "axis");
  place.append(controls(timelines, axis), ...timelines.map((timeline) => timeline.element), ticks,
    element("p", "hint", "Wheel, +, − zoom; drag, arrows move; 0 shows all."));
  axis.listen(() => requestAnimationFrame(() => drawAxis(ticks, axis)));
  redraws.push(() => {
    for (const timeline of timelines) timeline.draw();
    drawAxis(ticks, axis);
  });
  return axis;
}

/** Memory over time below a group of timelines. `shown`: [[title, memory], …]. */
function memoryCharts(place, shown, axis, redraws) {
  const highest = Math.max(1, ...shown.flatMap(([, memory]) => memory.ranks.map((bytesOf) => bytesOf.reduce((a, b) => Math.max(a, b), 0))));
  const word = data.timelines.predicted.rows[0].label.includes("rank") ? "rank" : "stage";
  for (const [title, memory] of shown.filter(([, one]) => one.time.length > 0)) { // some runtimes know peaks only
    const chart = new MemoryChart(title, memory, axis, highest, word);
    place.append(chart.element);
    redraws.push(() => chart.draw());
  }
}

function addTimelines(redraws) {
  const { predicted, measured, packed } = data.timelines;
  if (measured) {
    byId("step").hidden = false;
    const axis = timelineGroup(byId("step-timelines"),
      [["Predicted", predicted, data.packs.plan], ["Measured", measured, data.packs.plan]], redraws);
    memoryCharts(byId("step-memory"), [["Predicted", data.memory.predicted], ["Measured", data.memory.measured]], axis, redraws);
  }
  const axis = timelineGroup(byId("packed-timelines"),
    [["Packed", packed, data.packs.packed], ["As planned", predicted, data.packs.plan]], redraws);
  memoryCharts(byId("packed-memory"), [["Activation memory, packed", data.memory.packed],
    ["Activation memory, as planned", data.memory.predicted]], axis, redraws);
}

/** Charts of the loads of one replica's MicroPacks, and a choice between replicas. */
function addLoads(redraws) {
  const { predicted, measured } = data.loads;
  byId("loads-lead").textContent = "Time that all stages together spend on a MicroPack." +
    (measured ? " Bars are predicted, dots are measured." : "");
  let charts = [];
  const show = (replica) => {
    charts = ["forward", "backward"].map((pass) => loadsChart(pass === "forward" ? "Forward" : "Backward",
      predicted[replica][pass], measured?.[replica][pass], data.kinds.find((kind) => kind.name === pass).colour));
    byId("loads").replaceChildren(...charts.map((chart) => chart.element));
    for (const chart of charts) chart.draw();
  };
  if (predicted.length > 1) {
    const choice = element("select", "", null, ...predicted.map((_, i) => element("option", "", `replica ${i}`)));
    choice.setAttribute("aria-label", "replica");
    choice.addEventListener("change", () => show(choice.selectedIndex));
    byId("loads-choice").append(choice);
  }
  show(0);
  redraws.push(() => charts.forEach((chart) => chart.draw()));
}

function addCurves(redraws) {
  if (!data.curve || data.curve.step.length === 0) return;
  byId("curves").hidden = false;
  for (const chart of curveCharts(data.curve)) {
    byId("curve-charts").append(chart.element);
    redraws.push(() => chart.draw());
  }
}

function showPage() {
  describeKinds(data.kinds);
  document.title = `SlimPack report: ${data.name}`;
  byId("name").textContent = data.name;
  byId("program").textContent = `Made by ${data.program}.`;
  fillAbout(byId("about"), data.about);
  fillSummary(byId("summary"), data);
  fillRivals(byId("rivals"), byId("rivals-note"), data);
  fillLengths(byId("lengths"), data.lengths);
  fillRanks(byId("ranks"), data.timelines);
  if (data.errors) {
    byId("errors").hidden = false;
    fillErrors(byId("errors-table"), data);
  }
  const redraws = [];
  addTimelines(redraws);
  addLoads(redraws);
  addCurves(redraws);
  const redraw = () => redraws.forEach((draw) => draw());
  redraw();
  addEventListener("resize", redraw);
  onSchemeChange(redraw);
}

showPage();
