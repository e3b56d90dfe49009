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
  const present = new Set(timelines.flatMap((timeline) => timeline.rows.flatMap((row) => [...new Set(row.kind)])));
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

/** Timelines one below the other on one time axis of `end` nanoseconds. `shown`: [[title, timeline, packs], …].
 * Returns their axis. */
function timelineGroup(place, shown, end, redraws) {
  const axis = new TimeAxis(end);
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

/** Memory over time: all ways to run the step in one chart, of the fullest stage or of one that is chosen. */
function addMemory(axis, redraws) {
  const ways = [["packed", "packed", "soft"], ["predicted", "as planned", "accent"], ["measured", "as planned, measured", "second"]]
    .filter(([of]) => data.memory[of]?.time.length > 0); // some runtimes know peaks only
  if (ways.length === 0) return;
  byId("memory").hidden = false;
  const word = data.timelines.predicted.rows[0].label.includes("rank") ? "rank" : "stage";
  const stages = data.memory.predicted.ranks.length;
  let chart = null;
  const show = (stage) => { // −1 = the fullest
    chart = new MemoryChart(ways.map(([of, label, stroke]) => {
      const memory = data.memory[of];
      return { label, stroke, time: memory.time, bytes: stage < 0 ? fullest(memory) : memory.ranks[stage],
        end: data.timelines[of].makespan_ns };
    }), data.memory_cap_bytes, axis);
    byId("memory-chart").replaceChildren(chart.element);
    chart.draw();
    byId("memory-chart").chart = chart;
  };
  if (stages > 1) {
    const names = [`fullest ${word}`, ...Array.from({ length: stages }, (_, i) => `${word} ${i}`)];
    byId("memory-choice").append(choice(word, names, (i) => show(i - 1)));
  }
  show(-1);
  redraws.push(() => chart.draw());
}

/** A menu of `names`; `chosen(index)` is called when one is chosen. */
function choice(label, names, chosen) {
  const menu = element("select", "", null, ...names.map((name) => element("option", "", name)));
  menu.setAttribute("aria-label", label);
  menu.addEventListener("change", () => chosen(menu.selectedIndex));
  return menu;
}

function addTimelines(redraws) {
  const { predicted, measured, packed } = data.timelines;
  const ends = [predicted, packed].map((timeline) => timeline.makespan_ns);
  if (measured) {
    byId("step").hidden = false;
    timelineGroup(byId("step-timelines"), [["Predicted", predicted, data.packs.plan], ["Measured", measured, data.packs.plan]],
      Math.max(predicted.makespan_ns, measured.makespan_ns), redraws);
    ends.push(measured.makespan_ns); // its memory is below
  }
  byId("packed-speed").textContent = `, ${(packed.makespan_ns / predicted.makespan_ns).toFixed(2)} × as fast`;
  const axis = timelineGroup(byId("packed-timelines"),
    [["Packed", packed, data.packs.packed], ["As planned", predicted, data.packs.plan]], Math.max(...ends), redraws);
  addMemory(axis, redraws);
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
    byId("loads-choice").append(choice("replica", predicted.map((_, i) => `replica ${i}`), show));
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
  document.title = `SlimPack report: ${data.title}`;
  for (const part of ["title", "headline", "figures"]) byId(part).textContent = data[part];
  byId("program").textContent = `Made by ${data.program}.`;
  fillAbout(byId("about"), data.about);
  fillSummary(byId("summary"), data);
  fillRivals(byId("rivals"), byId("rivals-note"), data);
  if (data.run) {
    byId("run").hidden = false;
    fillRun(byId("run-lead"), byId("run-table"), data.run);
  }
  fillLengths(byId("lengths"), data.lengths);
  fillRanks(byId("ranks"), data);
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
