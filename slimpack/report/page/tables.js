// The figures as tables and tiles.

/** Fills a table. `columns`: [{title, left, words}]. Cells are text or elements. */
function fillTable(table, columns, rows, isOurs = () => false) {
  const cell = (tag, content, column) => {
    const made = element(tag, column.words ? "words" : column.left ? "left" : "");
    made.append(content ?? "");
    return made;
  };
  const head = element("tr", "", null, ...columns.map((column) => cell("th", column.title, column)));
  const body = rows.map((row, i) =>
    element("tr", isOurs(i) ? "ours" : "", null, ...row.map((content, c) => cell("td", content, columns[c]))));
  table.replaceChildren(element("thead", "", null, head), element("tbody", "", null, ...body));
}

/** Text with a bar of this share of the widest one. */
function withBar(text, part) {
  const fill = element("i");
  fill.style.width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return element("span", "", text, element("span", "share", null, fill));
}

function tile(what, figure, beside) {
  return element("div", "tile", null, element("div", "what", what), element("div", "figure", figure),
    element("div", "beside", beside));
}

/** How much faster the plan is than packing: as the run compared them by turns, else as predicted. */
function fasterThanPacked(data) {
  const { predicted, packed } = data.timelines;
  return data.compared
    ? tile("Faster than packed", `${data.compared.times_as_fast.toFixed(2)} ×`,
      `measured, ${data.compared.planners[0].step_ns.length} runs of each by turns`)
    : tile("Faster than packed", `${(packed.makespan_ns / predicted.makespan_ns).toFixed(2)} ×`, "both predicted");
}

/** What the run or the plan achieves, beside its prediction or its bound, and beside the fastest other planner. */
function fillSummary(place, data) {
  const { predicted, measured } = data.timelines;
  const rival = data.best_rival === null ? null : data.rivals[data.best_rival];
  const plan = { ...predicted, peak_bytes: data.rivals[0].peak_bytes }; // the need in any timing, as all planners have it
  const shown = measured ?? plan;
  const beside = (format, of) => [...(measured ? [`predicted ${format(of(plan))}`] : []),
    ...(rival ? [`${rival.planner} ${format(of(rival))}`] : [])].join(" · ");
  const speed = data.tokens / (shown.makespan_ns * 1e-9);
  const mfu = data.rivals[0].mfu; // as predicted; none without a peak of the hardware
  const shownMfu = mfu && (mfu * predicted.makespan_ns) / shown.makespan_ns;
  place.append(
    tile(measured ? "Step, measured" : "Step, predicted", duration(shown.makespan_ns), beside(duration, (t) => t.makespan_ns)),
    tile("Bubble", share(shown.bubble), beside(share, (t) => t.bubble)),
    tile("Peak activations of a rank", bytes(shown.peak_bytes), beside(bytes, (t) => t.peak_bytes)),
    tile("Tokens per second", human(speed), `${grouped(data.tokens)} tokens${data.compared && shownMfu ? `, MFU ${share(shownMfu)}` : ""}`),
    data.compared || !shownMfu ? fasterThanPacked(data) : tile("MFU", share(shownMfu), "model FLOPs ÷ the ranks' peak FLOPs"),
    tile("Above the bound", data.lower_bound_ns > 0 ? share(predicted.makespan_ns / data.lower_bound_ns - 1) : "–",
      "below which no plan can get"));
}

function fillAbout(list, about) {
  for (const [what, text] of about)
    list.append(element("div", "", null, element("dt", "", what), element("dd", "", text)));
}

function fillRivals(table, note, data) {
  const rows = data.rivals.map((row, i) => ({ ...row, ours: i === 0 }))
    .sort((a, b) => (a.makespan_ns ?? Infinity) - (b.makespan_ns ?? Infinity));
  const longest = Math.max(...rows.map((row) => row.makespan_ns ?? 0));
  const hasMfu = rows.some((row) => row.mfu);
  const mfu = (row) => (hasMfu ? [row.mfu ? share(row.mfu) : ""] : []);
  const cells = rows.map((row) => (row.makespan_ns === null
    ? [row.planner, "–", "", ...mfu(row), "", "", "", row.error]
    : [row.planner, withBar(duration(row.makespan_ns), row.makespan_ns / longest), human(row.tokens_per_second),
      ...mfu(row), share(row.bubble), bytes(row.peak_bytes) + (row.fits ? "" : " !"),
      row.published_makespan_ns ? duration(row.published_makespan_ns) : "", row.tuning ?? ""]));
  fillTable(table, [{ title: "planner", left: true }, { title: "step" }, { title: "tokens/s" },
    ...(hasMfu ? [{ title: "MFU" }] : []), { title: "bubble" },
    { title: "peak activations" }, { title: "as published" }, { title: "best with", words: true }], cells, (i) => rows[i].ours);
  if (rows.some((row) => !row.fits && row.makespan_ns !== null))
    note.textContent = `! above the memory cap of ${bytes(data.memory_cap_bytes)}`;
}

/** GPU-hours and money of a whole run under the planners that keep the memory cap. */
function fillRun(lead, table, bill) {
  const price = bill.price_per_gpu_hour;
  lead.textContent = `A run of ${human(bill.tokens)} tokens on ${grouped(bill.ranks)} GPUs` +
    `${price === null ? "" : `, each ${price.toFixed(2)} an hour`}, if all its steps are like this one. ` +
    `Predicted times are ± ${Math.round(100 * bill.known_error)}% off on average; stops and restarts come on top.`;
  const longest = Math.max(...bill.runs.map((run) => run.hours));
  fillTable(table, [{ title: "a run with", left: true }, { title: "takes" }, { title: "GPU-hours" },
    ...(price === null ? [] : [{ title: "costs" }]), { title: "more" }],
    bill.runs.map((run, i) => [run.name, duration(run.hours * 3600e9), withBar(human(run.gpu_hours), run.hours / longest),
      ...(price === null ? [] : [human(run.cost)]), i === 0 ? "" : `${run.more < 0 ? "−" : "+"}${share(Math.abs(run.more))}`]),
    (i) => i === 0);
}

function fillLengths(table, bins, count) {
  const highest = (of) => Math.max(...bins.map(of));
  const bar = (text, value, of) => withBar(text, value / highest(of));
  fillTable(table, [{ title: "tokens of a sequence" }, { title: "sequences" }, { title: "share of tokens" }, { title: "share of attention" }],
    bins.map((bin) => [
      bin.low === bin.high ? grouped(bin.low) : `${grouped(bin.low)} – ${grouped(bin.high)}`,
      bar(grouped(bin.count), bin.count, (b) => b.count),
      bar(share(bin.token_share), bin.token_share, (b) => b.token_share),
      bar(share(bin.attention_share), bin.attention_share, (b) => b.attention_share)]));
}

function fillErrors(table, data) {
  const rows = data.timelines.measured.rows;
  fillTable(table, [{ title: "rank", left: true }, { title: "action", left: true }, { title: "MicroPack" }, { title: "predicted" },
    { title: "measured" }, { title: "difference" }],
    data.errors.map((error) => {
      const difference = error.measured_ns - error.predicted_ns;
      return [rows[error.rank]?.label ?? `rank ${error.rank}`, data.kinds[error.kind].title, error.pack < 0 ? "" : error.pack,
        duration(error.predicted_ns), duration(error.measured_ns), (difference > 0 ? "+" : "") + duration(difference)];
    }));
}

/** Tables of more ranks than so many scroll. */
const MOST_RANKS = 64;

function fillRanks(table, data) {
  const { predicted, measured } = data.timelines;
  const scrolls = predicted.rows.length > MOST_RANKS;
  document.getElementById("ranks-lead").textContent =
    `${grouped(predicted.ranks * data.ranks_per_row)} ranks${scrolls ? "; the table scrolls" : ""}.` +
    (data.ranks_per_row > 1 ? ` A row is ${data.ranks_per_row} tensor-parallel ranks, which work alike.` : "");
  if (scrolls) document.getElementById("ranks-place").classList.add("tall");
  const columns = [{ title: "rank", left: true }];
  const sources = measured ? [["predicted", predicted], ["measured", measured]] : [["predicted", predicted]];
  for (const what of ["busy", "bubble", "peak activations"])
    for (const [name] of sources) columns.push({ title: `${what} ${name}` });
  const cells = predicted.rows.map((row, i) => {
    const of = sources.map(([, timeline]) => timeline.rows[i]).filter(Boolean);
    return [row.label, ...of.map((r) => duration(r.busy_ns)), ...of.map((r) => share(r.bubble)), ...of.map((r) => bytes(r.peak_bytes))];
  });
  fillTable(table, columns, cells);
}
