// The picture of a timeline: bars in rows over time, to zoom into and to ask. It only draws what was
// recorded; all sums and shares stand in the tables.
(() => {
  "use strict";
  const source = $("timeline-data");
  if (!source) return;
  const holders = all("details[data-timeline]");
  const KINDS = ["range", "api", "span", "gpu"];
  const WORDS = {
    range: "range on the host", api: "CUDA call",
    span: "from the first to the last of its operations on the GPU",
  };
  const PROCESSES = { range: "host, NVTX", api: "host, CUDA calls", span: "device, NVTX", gpu: "device" };
  const [ROW, GAP, LEFT, AXIS, PAD] = [20, 10, 150, 22, 4];
  const LEAST_NS = 50;
  const STEP = 1.6; // one press of a zoom button
  let data = null;
  const withEnds = (bars) => ({ ...bars, end: bars.start.map((start, bar) => start + bars.ns[bar]) });

  // ---- words -------------------------------------------------------------------------------------
  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
  const unitOf = (ns) => UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS.at(-1);
  const shown = (ns) => {
    const [size, unit] = unitOf(ns);
    return `${size === 1 ? Math.round(ns) : Number((ns / size).toPrecision(4))}\u202f${unit}`;
  };
  // What stands on a bar: of a kernel its name without namespaces, arguments and parameters.
  const short = (name) => name.replace(/^void /, "").replace(/^[^<(\[]*::/, "").replace(/[<(].*$/s, "") || name;
  const roundStep = (least) => {
    const decade = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((size) => size * decade).find((size) => size >= least * 0.999);
  };

  // ---- the page's colours, as a canvas understands them ---------------------------------------------
  const NAMES = ["page", "panel", "ink", "muted", "grid", "other", "best", "baseline", "series-1", "series-2", "series-3", "series-4"];
  const coloursOf = (element) => {
    const probe = document.createElement("span");
    element.append(probe);
    const found = {};
    for (const name of NAMES) {
      probe.style.color = `var(--${name})`;
      found[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return found;
  };

  class Viewer {
    constructor(holder, cell) {
      this.cell = cell;
      this.sets = Object.fromEntries(KINDS.map((kind) => [kind, withEnds(cell[kind])]));
      this.rows = cell.rows.map(([kind, label]) => ({ kind, label, bars: [] }));
      for (const kind of KINDS) {
        const bars = this.sets[kind];
        for (let bar = 0; bar < bars.row.length; bar += 1) this.rows[bars.row[bar]].bars.push(bar);
      }
      this.calls = true;
      this.chosen = null; // [kind, bar]
      this.whole = [0, Math.max(cell.end, LEAST_NS)];
      this.view = cell.windows.length ? this.widened(cell.windows[0].slice(1)) : [...this.whole];
      this.build(holder);
      this.colours = coloursOf(this.root);
      this.act();
      this.resize();
    }

    widened([from, to]) {
      const room = (to - from) * 0.02;
      return [Math.max(0, from - room), Math.min(this.whole[1], to + room)];
    }

    // ---- what stands around the picture --------------------------------------------------------------
    build(holder) {
      this.root = holder.querySelector(".viewer");
      const tools = make("div", { class: "tools" });
      const button = (text, title, act) => {
        const one = make("button", { type: "button", title }, text);
        one.addEventListener("click", act);
        tools.append(one);
      };
      button("\u2212", "Zoom out (key \u2212)", () => this.zoom(STEP));
      button("+", "Zoom in (key +)", () => this.zoom(1 / STEP));
      button("\u25c0", "Earlier (key \u2190)", () => this.pan(-0.3));
      button("\u25b6", "Later (key \u2192)", () => this.pan(0.3));
      button("All", "Everything (key 0)", () => this.show([...this.whole]));
      this.cell.windows.forEach(([name, ...part], place) => {
        button(name, `The one in the middle by its time (key ${place + 1})`, () => this.show(this.widened(part)));
      });
      if (this.sets.api.row.length) {
        const label = make("label", {}, " CUDA calls");
        const box = make("input", { type: "checkbox" });
        box.checked = this.calls;
        box.addEventListener("change", () => { this.calls = box.checked; this.resize(); });
        label.prepend(box);
        tools.append(label);
      }
      this.said = make("output", {});
      tools.append(this.said);
      this.strip = make("canvas", { class: "strip", "aria-hidden": "true" });
      this.bars = make("canvas", {
        class: "bars", tabindex: "0", role: "img",
        "aria-label": `Timeline of ${this.cell.name}: ranges, CUDA calls and operations over time. `
          + "Arrow keys move, plus and minus zoom, 0 shows everything, n and p choose the next and the previous bar of a row. "
          + "The same stands in the tables below.",
      });
      this.tip = make("div", { class: "tip", hidden: "" });
      this.words = make("p", { class: "chosen", "aria-live": "polite" },
        "Drag to move; Ctrl and the wheel, or the wheel after a click, zoom; a double click zooms to a bar. Keys: \u2190 \u2192 + \u2212 0 1, n and p.");
      const stage = make("div", { class: "stage" });
      stage.append(this.strip, this.bars, this.tip);
      this.root.replaceChildren(tools, stage, this.words);
      this.root.hidden = false;
      const detail = { title: this.cell.name, bars: () => this.columns() };
      tools.dispatchEvent(new CustomEvent("recorded", { bubbles: true, detail })); // what offers it elsewhere
    }

    columns() {
      const found = { rows: [], names: data.names, row: [], name: [], start: [], ns: [] };
      this.rows.forEach(({ kind, label }, row) => found.rows.push([PROCESSES[kind], label || `${found.rows[row - 1][1]} +`]));
      for (const kind of KINDS) {
        const { row, name, start, ns } = this.sets[kind];
        for (let bar = 0; bar < row.length; bar += 1) {
          for (const [column, value] of [["row", row[bar]], ["name", name[bar]], ["start", start[bar]], ["ns", ns[bar]]]) {
            found[column].push(value);
          }
        }
      }
      return found;
    }

    // ---- geometry ------------------------------------------------------------------------------------
    place() {
      let [y, before] = [AXIS, ""];
      this.tops = this.rows.map(({ kind }) => {
        if (kind === "api" && !this.calls) return null;
        if (before && kind !== before && (before !== "span" || kind !== "gpu")) y += GAP;
        before = kind;
        const top = y;
        y += ROW;
        return top;
      });
      this.height = y + PAD;
    }

    resize() {
      this.width = Math.max(this.root.clientWidth - 2, 300);
      this.place();
      const ratio = devicePixelRatio || 1;
      for (const [canvas, height] of [[this.strip, 44], [this.bars, this.height]]) {
        canvas.width = Math.round(this.width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.height = `${height}px`;
        canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
      }
      this.drawn = null;
      this.draw();
    }

    x(time) { return LEFT + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (this.width - LEFT); }

    time(x) { return this.view[0] + ((x - LEFT) / (this.width - LEFT)) * (this.view[1] - this.view[0]); }

    show([from, to]) {
      const length = Math.min(Math.max(to - from, LEAST_NS), this.whole[1]);
      const start = Math.min(Math.max(from, 0), this.whole[1] - length);
      this.view = [start, start + length];
      this.draw();
    }

    look(place) {
      if (this.cell.windows[place]) this.show(this.widened(this.cell.windows[place].slice(1)));
    }

    // Buttons and keys zoom about the chosen bar, which stays where it is; else about the middle.
    centre() {
      const middle = (this.view[0] + this.view[1]) / 2;
      if (!this.chosen) return middle;
      const { start, end } = this.sets[this.chosen[0]];
      const at = (start[this.chosen[1]] + end[this.chosen[1]]) / 2;
      return at >= this.view[0] && at <= this.view[1] ? at : middle;
    }

    zoom(factor, at = this.centre()) {
      this.show([at - (at - this.view[0]) * factor, at + (this.view[1] - at) * factor]);
    }

    pan(share) {
      const by = (this.view[1] - this.view[0]) * share;
      this.show([this.view[0] + by, this.view[1] + by]);
    }

    // Bars of a row do not overlap: their ends are in order as well.
    first(row, time) {
      const { bars, kind } = this.rows[row];
      const { end } = this.sets[kind];
      let [low, high] = [0, bars.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (end[bars[middle]] <= time) low = middle + 1; else high = middle;
      }
      return low;
    }

    // ---- drawing -------------------------------------------------------------------------------------
    draw() {
      this.said.textContent = `${shown(this.view[0])} to ${shown(this.view[1])}: ${shown(this.view[1] - this.view[0])}`;
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.paint();
      });
    }

    paint() {
      const pen = this.bars.getContext("2d");
      pen.clearRect(0, 0, this.width, this.height);
      pen.font = "12px system-ui, sans-serif";
      pen.textBaseline = "middle";
      this.axis(pen);
      this.rows.forEach((_, row) => { if (this.tops[row] !== null) this.paintRow(pen, row); });
      pen.clearRect(0, AXIS, LEFT - 1, this.height);
      this.rows.forEach(({ label }, row) => {
        if (label && this.tops[row] !== null) this.text(pen, label, 6, this.tops[row] + ROW / 2, LEFT - 12, this.colours.ink);
      });
      this.paintStrip();
    }

    axis(pen) {
      const length = this.view[1] - this.view[0];
      const step = roundStep((length / (this.width - LEFT)) * 110);
      const [size, unit] = unitOf(Math.max(length, step));
      const digits = Math.max(0, Math.ceil(-Math.log10(step / size)));
      pen.fillStyle = this.colours.muted;
      this.text(pen, unit, 6, AXIS / 2, LEFT - 12, this.colours.muted);
      for (let time = Math.ceil(this.view[0] / step) * step; time <= this.view[1]; time += step) {
        const x = Math.round(this.x(time)) + 0.5;
        pen.fillStyle = this.colours.grid;
        pen.fillRect(x, AXIS - 4, 1, this.height);
        this.text(pen, (time / size).toFixed(digits), x + 4, AXIS / 2, 100, this.colours.muted);
      }
    }

    text(pen, words, x, y, room, colour) {
      let text = words;
      if (pen.measureText(text).width > room) {
        let [low, high] = [0, text.length];
        while (low < high) {
          const middle = (low + high + 1) >> 1;
          if (pen.measureText(`${text.slice(0, middle)}\u2026`).width <= room) low = middle; else high = middle - 1;
        }
        text = low ? `${text.slice(0, low)}\u2026` : "";
      }
      pen.fillStyle = colour;
      pen.fillText(text, x, y);
    }

    colour(kind, phase) {
      if (kind === "api") return this.colours.muted;
      return this.colours[data.colours[phase]] ?? this.colours.other;
    }

    paintRow(pen, row) {
      const { kind, bars } = this.rows[row];
      const set = this.sets[kind];
      const top = this.tops[row] + 1;
      let until = -Infinity; // the pixel up to which this row is painted
      for (let place = this.first(row, this.view[0]); place < bars.length; place += 1) {
        const bar = bars[place];
        if (set.start[bar] >= this.view[1]) break;
        const from = Math.max(this.x(set.start[bar]), LEFT - 1);
        const to = Math.min(Math.max(this.x(set.end[bar]), from + 0.6), this.width + 2);
        if (to <= until + 0.5) continue; // hidden behind what is there: no eye would see it
        until = to;
        const wide = to - from;
        const colour = this.colour(kind, set.phase[bar]);
        pen.fillStyle = colour;
        pen.globalAlpha = wide > 18 ? 0.3 : 1;
        pen.fillRect(from, top, wide > 3 ? wide - 0.5 : wide, ROW - 2);
        pen.globalAlpha = 1;
        if (wide > 18) {
          pen.fillRect(from, top, 2, ROW - 2);
          const name = data.names[set.name[bar]];
          this.text(pen, kind === "gpu" ? short(name) : name, from + 5, top + ROW / 2 - 1, wide - 9, this.colours.ink);
        }
        if (this.chosen && this.chosen[0] === kind && this.chosen[1] === bar) {
          pen.strokeStyle = this.colours.ink;
          pen.lineWidth = 2;
          pen.strokeRect(from + 1, top + 1, Math.max(wide - 2, 1), ROW - 4);
        }
      }
    }

    // Above: how busy the GPU was (of a CPU: its ranges), and what of it is in view.
    paintStrip() {
      const pen = this.strip.getContext("2d");
      const [wide, high] = [this.width - LEFT, 44];
      if (!this.drawn) {
        this.drawn = new Float64Array(Math.ceil(wide));
        const each = this.whole[1] / wide;
        const { start, end } = this.sets.gpu.row.length ? this.sets.gpu : this.sets.range;
        let latest = 0;
        for (let bar = 0; bar < start.length; bar += 1) {
          let time = Math.max(start[bar], latest); // what runs at once counts once
          latest = Math.max(latest, end[bar]);
          while (time < end[bar]) {
            const pixel = Math.min(Math.floor(time / each), this.drawn.length - 1);
            const next = Math.max(Math.min(end[bar], (pixel + 1) * each), time + each / 1e6);
            this.drawn[pixel] += (next - time) / each;
            time = next;
          }
        }
      }
      pen.clearRect(0, 0, this.width, high);
      pen.font = "12px system-ui, sans-serif";
      pen.textBaseline = "middle";
      this.text(pen, this.sets.gpu.row.length ? `${this.cell.device} busy, all` : "All", 6, high / 2, LEFT - 12, this.colours.muted);
      pen.fillStyle = this.colours.other;
      this.drawn.forEach((share, pixel) => {
        const tall = Math.min(share, 1) * (high - 6);
        pen.fillRect(LEFT + pixel, high - tall, 1, tall);
      });
      const [from, to] = this.view.map((time) => LEFT + (time / this.whole[1]) * wide);
      pen.fillStyle = this.colours.best;
      pen.globalAlpha = 0.25;
      pen.fillRect(from, 0, Math.max(to - from, 2), high);
      pen.globalAlpha = 1;
      pen.fillRect(from, 0, 2, high);
      pen.fillRect(Math.max(to, from + 2) - 2, 0, 2, high);
    }

    // ---- asking --------------------------------------------------------------------------------------
    at(x, y) {
      if (x < LEFT) return null;
      const row = this.tops.findIndex((top) => top !== null && y >= top && y < top + ROW);
      if (row < 0) return null;
      const { kind, bars } = this.rows[row];
      const set = this.sets[kind];
      const [time, near] = [this.time(x), this.time(x + 2) - this.time(x)];
      let best = null;
      for (let place = this.first(row, time - near); place < bars.length; place += 1) {
        const bar = bars[place];
        if (set.start[bar] > time + near) break;
        const away = Math.max(set.start[bar] - time, time - set.end[bar], 0);
        if (best === null || away < best[0]) best = [away, bar];
      }
      return best && [kind, best[1]];
    }

    tell([kind, bar]) {
      const set = this.sets[kind];
      const path = [];
      const own = kind === "span" ? this.sets.range.inside[set.inside[bar]] : set.inside[bar];
      for (let around = own; around >= 0; around = this.sets.range.inside[around]) {
        path.unshift(data.names[this.sets.range.name[around]]);
      }
      const phase = this.cell.phases[set.phase[bar]];
      return [
        data.names[set.name[bar]],
        [
          `${WORDS[kind] ?? `on the ${this.cell.device}`}, ${shown(set.end[bar] - set.start[bar])}, begins at ${shown(set.start[bar])}`,
          path.length ? `in ${path.join(" / ")}` : kind === "api" ? "" : "in no range",
          phase && kind === "gpu" && !path.includes(phase) ? `phase ${phase}` : "",
        ].filter(Boolean).join("; "),
      ];
    }

    write(element, [name, rest]) {
      element.replaceChildren(make("b", {}, name), make("br"), document.createTextNode(rest));
    }

    choose(found) {
      this.chosen = found;
      if (found) this.write(this.words, this.tell(found));
      this.draw();
    }

    step(by) {
      const [kind, bar] = this.chosen ?? [this.sets.gpu.row.length ? "gpu" : "range", null];
      const set = this.sets[kind];
      const row = bar === null ? this.rows.findIndex((one) => one.kind === kind) : set.row[bar];
      if (row < 0) return;
      const { bars } = this.rows[row];
      const place = bar === null ? this.first(row, this.view[0]) : bars.indexOf(bar) + by;
      const next = bars[Math.min(Math.max(place, 0), bars.length - 1)];
      if (next === undefined) return;
      const length = this.view[1] - this.view[0];
      if (set.start[next] < this.view[0] || set.end[next] > this.view[1]) {
        const middle = (set.start[next] + set.end[next]) / 2;
        this.show([middle - length / 2, middle + length / 2]);
      }
      this.choose([kind, next]);
    }

    act() {
      const keys = {
        ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
        "+": () => this.zoom(1 / STEP), "=": () => this.zoom(1 / STEP), "-": () => this.zoom(STEP),
        0: () => this.show([...this.whole]), Home: () => this.show([...this.whole]),
        1: () => this.look(0), 2: () => this.look(1),
        n: () => this.step(1), p: () => this.step(-1),
      };
      this.bars.addEventListener("keydown", (event) => {
        const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
        if (!act) return;
        event.preventDefault();
        act();
      });
      this.bars.addEventListener("wheel", (event) => {
        const asked = event.ctrlKey || event.metaKey || document.activeElement === this.bars;
        if (!asked) return; // else a reader could not scroll past the picture
        event.preventDefault();
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
          this.pan((event.deltaX || event.deltaY) / this.width);
        } else this.zoom(1.002 ** event.deltaY, this.time(event.offsetX));
      }, { passive: false });
      let held = null;
      let moved = false;
      this.bars.addEventListener("pointerdown", (event) => {
        held = [event.clientX, [...this.view]];
        moved = false;
        this.bars.setPointerCapture(event.pointerId);
      });
      this.bars.addEventListener("pointermove", (event) => {
        if (held) {
          const by = ((held[0] - event.clientX) / (this.width - LEFT)) * (held[1][1] - held[1][0]);
          moved ||= Math.abs(held[0] - event.clientX) > 3;
          if (moved) {
            this.bars.classList.add("held");
            this.show([held[1][0] + by, held[1][1] + by]);
          }
          return;
        }
        this.hover(event);
      });
      const release = (event) => {
        if (held && !moved && event.type === "pointerup") this.choose(this.at(event.offsetX, event.offsetY));
        held = null;
        this.bars.classList.remove("held");
      };
      this.bars.addEventListener("pointerup", release);
      this.bars.addEventListener("pointercancel", release);
      this.bars.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      this.bars.addEventListener("dblclick", (event) => {
        const found = this.at(event.offsetX, event.offsetY);
        if (!found) return;
        const set = this.sets[found[0]];
        this.show(this.widened([set.start[found[1]], set.end[found[1]]]));
      });
      const jump = (event) => {
        if (event.offsetX < LEFT) return;
        const middle = ((event.offsetX - LEFT) / (this.width - LEFT)) * this.whole[1];
        const half = (this.view[1] - this.view[0]) / 2;
        this.show([middle - half, middle + half]);
      };
      this.strip.addEventListener("pointerdown", jump);
      this.strip.addEventListener("pointermove", (event) => { if (event.buttons) jump(event); });
    }

    hover(event) {
      const found = this.at(event.offsetX, event.offsetY);
      this.tip.hidden = !found;
      if (!found) return;
      this.write(this.tip, this.tell(found));
      const left = Math.min(event.offsetX + 14, this.width - this.tip.offsetWidth - 4);
      this.tip.style.left = `${Math.max(left, 0)}px`;
      this.tip.style.top = `${event.offsetY + 44 + 18}px`;
    }

    recolour() {
      this.colours = coloursOf(this.root);
      this.paint();
    }
  }

  // ---- one viewer for each cell, made when it is first looked at ------------------------------------
  const viewers = new Map();
  let unpacking = null; // once for all viewers
  const look = async (holder) => {
    if (!holder.open) return;
    unpacking ??= unpacked(source);
    data = await unpacking;
    const viewer = viewers.get(holder);
    if (viewer) viewer.resize();
    else viewers.set(holder, new Viewer(holder, data.cells[Number(holder.dataset.timeline)]));
  };
  for (const holder of holders) {
    holder.addEventListener("toggle", () => look(holder));
    look(holder);
  }
  addEventListener("resize", () => holders.filter((one) => one.open).forEach(look));
  const recolour = () => viewers.forEach((viewer) => viewer.recolour());
  new MutationObserver(recolour).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
})();
