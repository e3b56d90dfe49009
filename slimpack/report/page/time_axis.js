// The part of the step that a group of timelines shows. All of the group show the same part.

class TimeAxis {
  /** `end`: nanoseconds. */
  constructor(end) {
    this.end = Math.max(end, 1);
    this.from = 0;
    this.to = this.end;
    this.listeners = [];
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  get span() {
    return this.to - this.from;
  }

  get isWhole() {
    return this.span >= this.end;
  }

  show(from, span) {
    const shortest = Math.min(this.end, Math.max(this.end / 1e6, 100));
    span = Math.min(Math.max(span, shortest), this.end);
    this.from = Math.min(Math.max(from, 0), this.end - span);
    this.to = this.from + span;
    for (const listener of this.listeners) listener();
  }

  /** Zooms by `factor` (below 1: closer) around `at` nanoseconds. */
  zoom(factor, at = (this.from + this.to) / 2) {
    const span = Math.min(this.span * factor, this.end);
    this.show(at - ((at - this.from) / this.span) * span, span);
  }

  /** Moves by a part of what is shown. */
  pan(part) {
    this.show(this.from + part * this.span, this.span);
  }

  reset() {
    this.show(0, this.end);
  }

  /** Arrows, + and −, 0. Returns whether the key was one of them. */
  key(name) {
    const actions = {
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
      "+": () => this.zoom(0.7), "=": () => this.zoom(0.7),
      "-": () => this.zoom(1 / 0.7), "−": () => this.zoom(1 / 0.7), 0: () => this.reset(),
    };
    actions[name]?.();
    return name in actions;
  }
}
