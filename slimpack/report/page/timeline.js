// Draws timelines on canvases. Only what is visible is drawn: rows inside the viewport, boxes inside the
// time axis, and of boxes narrower than a pixel one for each pixel.

const TALLEST = 420; // pixels of a timeline's rows
const FONT = "12px system-ui, sans-serif";

/** A canvas of the size that it has on the page, in device pixels. Returns its context. */
function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = FONT;
  return context;
}

function gutter() {
  return parseFloat(colour("gutter"));
}

/** "replica 3 stage 1" as "r3 s1" where there is little room. */
function rowLabel(label) {
  return gutter() > 100 ? label : label.replace(/([a-z])[a-z]* (\d+)/g, "$1$2");
}

/** The index of the first span that ends after `time`. Spans of a row do not overlap. */
function firstAfter(row, time) {
  let low = 0;
  let high = row.start.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.start[middle] + row.length[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

class Timeline {
  /** `packs`: by replica the slices of its MicroPacks. `hover(span or null, event)` is called as the pointer moves. */
  constructor(title, data, packs, kinds, axis, hover) {
    Object.assign(this, { data, packs, kinds, axis, hover, marked: null, due: false });
    this.rows = data.rows.filter((row) => row.start); // a page holds so many spans
    const rows = this.rows.length;
    this.rowHeight = Math.max(8, Math.min(22, Math.floor(TALLEST / rows)));
    const drawn = rows < data.ranks ? `, first ${grouped(rows)} of ${grouped(data.ranks)} rows` : "";
    const hidden = drawn + (rows * this.rowHeight > TALLEST ? `, scroll to see all ${grouped(rows)}` : "");
    this.element = element("div", "timeline", null,
      element("h4", "", null, element("b", "", title), `  ${duration(data.makespan_ns)}, bubble ${share(data.bubble)}${hidden}`));
    this.viewport = element("div", "rows");
    this.viewport.tabIndex = 0;
    this.viewport.setAttribute("role", "group");
    this.viewport.setAttribute("aria-label", `Timeline, ${title}: arrows move, + and − zoom, 0 shows all`);
    this.canvas = element("canvas");
    this.spacer = element("div", "", null, this.canvas);
    this.spacer.style.height = `${rows * this.rowHeight}px`;
    this.viewport.style.maxHeight = `${TALLEST}px`;
    this.viewport.append(this.spacer);
    this.element.append(this.viewport);
    this.listen();
  }

  listen() {
    this.viewport.addEventListener("scroll", () => this.redraw());
    this.viewport.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && this.axis.key(event.key)) event.preventDefault();
    });
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.clientX, from: this.axis.from };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", () => { this.drag = null; });
    this.canvas.addEventListener("pointercancel", () => { this.drag = null; });
    this.canvas.addEventListener("pointerleave", (event) => this.hover(null, event));
    this.axis.listen(() => this.redraw());
  }

  /** Zooms. Where nothing is left to zoom out, the page scrolls. */
  wheel(event) {
    if (event.deltaY > 0 && this.axis.isWhole && event.deltaX === 0) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.axis.pan(event.deltaX / this.plotWidth);
    else this.axis.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.0025))), this.timeAt(event.offsetX));
  }

  move(event) {
    if (this.drag) {
      this.hover(null, event);
      const moved = ((event.clientX - this.drag.x) / this.plotWidth) * this.axis.span;
      this.axis.show(this.drag.from - moved, this.axis.span);
    } else {
      this.hover(this.spanAt(event.offsetX, event.offsetY), event);
    }
  }

  get plotWidth() {
    return this.width - this.left;
  }

  timeAt(x) {
    return this.axis.from + ((x - this.left) / this.plotWidth) * this.axis.span;
  }

  /** The span under a point of the canvas, as the page shows it; null where there is none. */
  spanAt(x, y) {
    const rank = Math.floor((y + this.viewport.scrollTop) / this.rowHeight);
    if (x < this.left || rank < 0 || rank >= this.rows.length) return null;
    const row = this.rows[rank];
    const time = this.timeAt(x);
    const i = firstAfter(row, time);
    return i < row.start.length && row.start[i] <= time ? this.span(rank, i) : null;
  }

  span(rank, i) {
    const row = this.rows[rank];
    const kind = this.kinds[row.kind[i]];
    const replica = Math.floor(rank / (this.data.ranks / this.packs.length));
    return {
      rank, replica, label: row.label, kind, pack: row.pack[i], stage: row.stage[i], start: row.start[i],
      length: row.length[i], memory: row.memory[i], predicted: row.predicted[i], pass: kind.pass,
      slices: kind.pass && row.pack[i] >= 0 ? this.packs[replica][kind.pass][row.pack[i]] : null,
      origin: this.data.origin,
    };
  }

  /** Outlines the boxes of this span's MicroPack; null = of none. */
  mark(span) {
    this.marked = span;
    this.redraw();
  }

  redraw() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.draw();
    });
  }

  draw() {
    this.width = this.viewport.clientWidth;
    this.left = gutter();
    const height = Math.min(this.viewport.clientHeight, this.rows.length * this.rowHeight);
    const context = sized(this.canvas, this.width, height);
    const top = this.viewport.scrollTop;
    const last = Math.min(this.rows.length, Math.ceil((top + height) / this.rowHeight));
    this.boxes = 0;
    for (let rank = Math.floor(top / this.rowHeight); rank < last; rank += 1)
      this.drawRow(context, rank, rank * this.rowHeight - top);
    Object.assign(this.canvas.dataset, { boxes: this.boxes, from: this.axis.from, to: this.axis.to }); // as drawn
  }

  drawRow(context, rank, y) {
    const row = this.rows[rank];
    const height = this.rowHeight - (this.rowHeight > 10 ? 3 : 1);
    const scale = this.plotWidth / this.axis.span;
    const x = (time) => this.left + (time - this.axis.from) * scale;
    this.drawLabel(context, rank, y + height / 2);
    context.save();
    context.beginPath();
    context.rect(this.left, y, this.plotWidth, height);
    context.clip();
    context.fillStyle = colour("idle");
    context.fillRect(this.left, y, x(this.data.makespan_ns) - this.left, height);
    let pixel = -1; // of the last box that was narrower than one
    for (let i = firstAfter(row, this.axis.from); i < row.start.length && row.start[i] < this.axis.to; i += 1) {
      const kind = this.kinds[row.kind[i]];
      if (!kind.colour) continue;
      const from = x(row.start[i]);
      const width = row.length[i] * scale;
      if (width < 1 && Math.floor(from) === pixel) continue;
      if (width < 1) pixel = Math.floor(from);
      this.drawBox(context, kind, row.pack[i], from, y, width, height);
      if (this.isMarked(rank, kind, row.pack[i])) this.outline(context, from, y, width, height);
    }
    context.restore();
  }

  /** Where rows are too narrow for a label each, the first row of a replica has the replica's. */
  drawLabel(context, rank, y) {
    const rowsOfLabel = Math.ceil(14 / this.rowHeight);
    const rowsOfReplica = this.data.ranks / this.packs.length;
    const label = this.rows[rank].label;
    const ofReplica = rowsOfLabel > 1 && rowsOfReplica >= rowsOfLabel && this.packs.length > 1;
    if (rank % (ofReplica ? rowsOfReplica : rowsOfLabel) !== 0) return;
    context.fillStyle = colour("soft");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(rowLabel(ofReplica ? label.match(/^replica \d+/)[0] : label), this.left - 8, Math.max(y, 7));
  }

  drawBox(context, kind, pack, x, y, width, height) {
    context.fillStyle = kind.colour;
    context.fillRect(x, y, Math.max(width, 1), height);
    this.boxes += 1;
    if (width >= 4) { // a line parts neighbours; a gap would look like waiting
      context.fillStyle = "rgb(0 0 0 / 0.28)";
      context.fillRect(x + width - 1, y, 1, height);
    }
    if (width < 34 || height < 14 || pack < 0) return;
    context.fillStyle = kind.ink;
    context.textAlign = "left";
    const text = `${kind.letter}${pack}`;
    context.fillText(text, Math.max(x, this.left) + 5, y + height / 2 + 0.5, width - 8);
  }

  isMarked(rank, kind, pack) {
    const marked = this.marked;
    return marked && marked.pass === kind.pass && marked.pack === pack && pack >= 0 &&
      marked.replica === Math.floor(rank / (this.data.ranks / this.packs.length));
  }

  outline(context, x, y, width, height) {
    context.strokeStyle = colour("text");
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(width - 3, 1), height - 2);
  }
}

/** Ticks of time below a group of timelines. */
function drawAxis(canvas, axis) {
  const width = canvas.clientWidth;
  const context = sized(canvas, width, 24);
  const left = gutter();
  const step = niceStep((axis.span / (width - left)) * 90);
  context.fillStyle = context.strokeStyle = colour("soft");
  context.textBaseline = "top";
  context.beginPath();
  context.moveTo(left, 0.5);
  context.lineTo(width, 0.5);
  for (let tick = Math.ceil(axis.from / step) * step; tick <= axis.to; tick += step) {
    const x = left + ((tick - axis.from) / axis.span) * (width - left);
    context.moveTo(x, 0);
    context.lineTo(x, 5);
    context.textAlign = x > width - 30 ? "right" : x < left + 12 ? "left" : "center";
    context.fillText(tickLabel(tick, step), x, 8);
  }
  context.stroke();
}
