// The timeline: a row for each slot of each worker, a bar for each attempt, a line for each rebalance.

import { el, muted } from "../dom.js";
import { banner } from "../parts.js";
import { colour, onTheme } from "../theme.js";
import { nowMs, span } from "../words.js";

const ROW = 20;
const TOP = 90;
const ENDS = ["finished", "running", "stopped", "moved", "failed", "lost"];
const SCRIPTS = ["bokeh.min.js", "bokeh-api.min.js"];

let loading;

function loadDrawing() {
  loading ??= SCRIPTS.reduce((before, name) => before.then(() => load(name)), Promise.resolve()).catch((failed) => {
    loading = undefined; // the next answer tries again
    throw failed;
  });
  return loading;
}

function load(name) {
  return new Promise((resolve, reject) => {
    const script = el("script", { src: `drawing/${name}`, onload: resolve, onerror: () => reject(new Error(`${name} could not be loaded`)) });
    document.head.append(script);
  });
}

export function timelineView({ about, me }) {
  if (me.drawing) return { element: banner("", me.drawing), path: () => `api/epochs${about()}`, show: () => {} };
  const canvas = el("div", { class: "drawing" });
  const problem = el("div", { "aria-live": "polite" });
  const note = el("p", { class: "muted" });
  const follow = el("button", { type: "button", onclick: () => picture?.followAgain() }, "Show all, and follow");
  const legend = el("p", { class: "legend" }, ENDS.map((end) => el("span", { data: { end } }, end)), el("span", { data: { end: "mark" } }, "a rebalance"), follow);
  const bars = new Map();
  let lost = {}, marks = [], origin = "", changed = 0, picture, closed = false;

  async function draw() {
    await loadDrawing();
    if (closed) return;
    const data = [[...bars.values()].map((bar) => (bar.key in lost ? { ...bar, end: "lost", ended_at_ms: lost[bar.key] } : bar)), marks];
    if (picture?.fits(data[0])) picture.update(...data);
    else {
      picture?.close();
      picture = new Picture(canvas, ...data);
    }
    problem.replaceChildren();
  }

  const redraw = () => draw().catch((failed) => problem.replaceChildren(banner("bad", failed.message)));
  const timer = setInterval(() => picture?.grow(), 1000);
  const unfollow = onTheme(() => {
    picture?.close();
    picture = undefined;
    redraw();
  });
  return {
    element: el("div", {}, legend, problem, canvas, note),
    path: () => `api/timeline${about({ since: changed })}`,
    show(answer) {
      if (answer.origin !== origin) {
        bars.clear();
        origin = answer.origin;
        if (changed > 0) {
          changed = 0;
          return; // the next answer has all
        }
      }
      for (const bar of answer.bars) bars.set(bar.key, bar);
      [lost, marks, changed] = [answer.lost, answer.marks, answer.changed];
      note.replaceChildren(answer.dropped ? `${answer.dropped.toLocaleString("en")} older attempts are not shown` : bars.size ? "" : answer.reading ? "Reading the events …" : "nothing has run yet, or its records have expired");
      redraw();
    },
    close() {
      closed = true;
      clearInterval(timer);
      unfollow();
      picture?.close();
    },
  };
}

// Assigns attempts to rows: those of a worker that ran at the same time are in different rows.
function rowsOf(bars) {
  const ends = new Map();
  const lanes = new Map();
  for (const bar of [...bars].sort((one, other) => one.started_at_ms - other.started_at_ms || one.key - other.key)) {
    const worker = ends.get(bar.worker) ?? [];
    let lane = worker.findIndex((end) => end <= bar.started_at_ms);
    if (lane < 0) lane = worker.length;
    worker[lane] = bar.ended_at_ms ?? Infinity;
    ends.set(bar.worker, worker);
    lanes.set(bar.key, lane);
  }
  const first = new Map();
  let rows = 0;
  for (const worker of [...ends.keys()].sort()) {
    first.set(worker, rows);
    rows += ends.get(worker).length + 0.5;
  }
  return { rows: Math.max(rows, 1), workers: first, sizes: ends, row: (bar) => first.get(bar.worker) + lanes.get(bar.key) + 0.5 };
}

class Picture {
  #plot; #bars; #marks; #rows; #source; #lines; #set; #following = true;

  constructor(canvas, bars, marks) {
    this.#rows = rowsOf(bars);
    this.#source = new Bokeh.ColumnDataSource({ data: {} });
    this.#lines = new Bokeh.ColumnDataSource({ data: {} });
    const height = this.#rows.rows;
    const text = colour("fg"), quiet = colour("muted"), line = colour("border");
    const plot = (this.#plot = Bokeh.Plotting.figure({
      height: Math.round(TOP + ROW * height), sizing_mode: "stretch_width", x_axis_type: "datetime",
      x_range: new Bokeh.Range1d({ start: 0, end: 1 }), y_range: new Bokeh.Range1d({ start: height, end: -0.7 }),
      tools: "xpan,xwheel_zoom,xbox_zoom,reset", active_scroll: null, toolbar_location: "above",
      background_fill_color: null, border_fill_color: null, outline_line_color: line,
    }));
    plot.toolbar.logo = null;
    const ticks = [...this.#rows.workers].map(([worker, row]) => [row + this.#rows.sizes.get(worker).length / 2, worker]);
    const axis = plot.yaxis[0] ?? plot.left[0], below = plot.xaxis[0] ?? plot.below[0];
    axis.ticker = new Bokeh.FixedTicker({ ticks: ticks.map(([row]) => row), minor_ticks: [] });
    axis.major_label_overrides = new Map(ticks.map(([row, worker]) => [row, short(worker)]));
    for (const one of [axis, below]) {
      Object.assign(one, { axis_line_color: line, major_tick_line_color: null, minor_tick_line_color: null, major_label_text_color: text, major_label_text_font_size: "12px" });
    }
    below.major_label_text_color = quiet;
    below.formatter = new Bokeh.DatetimeTickFormatter({ seconds: "%H:%M:%S", minsec: "%H:%M:%S", minutes: "%H:%M", hourmin: "%H:%M", hours: "%H:%M", days: "%d %b" });
    for (const grid of plot.center) grid.grid_line_color = grid.dimension === 0 ? line : null;
    const drawn = plot.hbar({ y: { field: "row" }, left: { field: "left" }, right: { field: "right" }, height: 0.8, fill_color: { field: "colour" }, line_color: null, border_radius: 2, source: this.#source });
    const lines = plot.segment({ x0: { field: "at" }, x1: { field: "at" }, y0: -0.7, y1: height, line_color: quiet, line_dash: { value: [4, 4] }, source: this.#lines });
    const dots = plot.scatter({ x: { field: "at" }, y: -0.35, marker: "inverted_triangle", size: 10, fill_color: quiet, line_color: null, source: this.#lines });
    plot.add_tools(
      new Bokeh.HoverTool({ renderers: [drawn], point_policy: "follow_mouse", tooltips: [["task", "@task"], ["worker", "@worker"], ["attempt", "@attempt, @end"], ["took", "@took"], ["epoch", "@epoch"], ["why here", "@why"]] }),
      new Bokeh.HoverTool({ renderers: [dots, lines], tooltips: [["epoch", "@epoch"], ["because", "@because"], ["tasks", "@starts start, @stops stop"]] }),
    );
    this.update(bars, marks);
    plot.x_range.properties.end.change.connect(() => {
      if (plot.x_range.end !== this.#set) this.#following = false;
    });
    Bokeh.Plotting.show(plot, canvas).then((view) => (this.view = view));
    this.canvas = canvas;
  }

  // Whether the bars have the same rows as those that were drawn.
  fits(bars) {
    const { rows, workers } = rowsOf(bars);
    return rows === this.#rows.rows && workers.size === this.#rows.workers.size;
  }

  update(bars, marks) {
    this.#rows = rowsOf(bars);
    [this.#bars, this.#marks] = [bars, marks];
    const now = nowMs();
    const column = (make) => bars.map(make);
    const colours = Object.fromEntries(ENDS.map((end) => [end, colour(`end-${end}`)]));
    const zone = -new Date().getTimezoneOffset() * 60000;
    this.#source.data = {
      row: column((bar) => this.#rows.row(bar)),
      left: column((bar) => bar.started_at_ms + zone),
      right: column((bar) => Math.max(bar.ended_at_ms ?? now, bar.started_at_ms + 1) + zone),
      colour: column((bar) => colours[bar.end]),
      task: column((bar) => bar.task), worker: column((bar) => bar.worker), attempt: column((bar) => bar.attempt),
      end: column((bar) => bar.end), epoch: column((bar) => bar.epoch), why: column((bar) => bar.why || "not told"),
      took: column((bar) => span((bar.ended_at_ms ?? now) - bar.started_at_ms)),
    };
    this.#lines.data = {
      at: marks.map((mark) => mark.at_ms + zone), epoch: marks.map((mark) => mark.epoch),
      because: marks.map((mark) => mark.because), starts: marks.map((mark) => mark.starts), stops: marks.map((mark) => mark.stops),
    };
    this.#look(zone, now);
  }

  // Extends the bars of running attempts.
  grow() {
    if (this.#bars.some((bar) => bar.ended_at_ms === null)) this.update(this.#bars, this.#marks);
  }

  followAgain() {
    this.#following = true;
    this.update(this.#bars, this.#marks);
  }

  #look(zone, now) {
    if (!this.#following) return;
    const starts = [...this.#bars.map((bar) => bar.started_at_ms), ...this.#marks.map((mark) => mark.at_ms)];
    const ends = [...this.#bars.map((bar) => bar.ended_at_ms ?? now), ...this.#marks.map((mark) => mark.at_ms)];
    const least = (values) => values.reduce((one, other) => Math.min(one, other), Infinity);
    const first = starts.length ? least(starts) : now - 60000;
    const last = starts.length ? -least(ends.map((end) => -end)) : now;
    const margin = Math.max(500, (last - first) * 0.02);
    this.#set = last + margin + zone;
    this.#plot.x_range.setv({ start: first - margin + zone, end: this.#set });
  }

  close() {
    this.view?.remove?.();
    this.canvas.replaceChildren();
  }
}

const short = (name) => (name.length > 28 ? `…${name.slice(-27)}` : name);
