// Any metric against any other: a dot for each cell at one problem, or at all of them.
const scatter = $("scatter");
const FRAME = { left: 64, right: 884, top: 10, bottom: 340, width: 900, height: 386 };
const MOST_TICKS = 8;
const LOGARITHMIC = 30; // the largest by the smallest, from which on an axis is
const ticksOf = (low, high, isLog) => {
  if (isLog) {
    const steps = high / low > 1e3 ? [1] : [1, 2, 5];
    const decades = Array.from({ length: 40 }, (_, place) => 10 ** (Math.floor(Math.log10(low)) + place));
    return decades.flatMap((decade) => steps.map((step) => step * decade)).filter((tick) => tick >= low && tick <= high);
  }
  const raw = (high - low) / MOST_TICKS;
  const decade = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((size) => size * decade).find((size) => size >= raw * 0.999);
  return Array.from({ length: MOST_TICKS + 2 }, (_, place) => (Math.ceil(low / step) + place) * step).filter((tick) => tick <= high);
};
const spanOf = (metric, values, from, to) => {
  const [least, most] = extent(values);
  const isLog = least > 0 && most / least > LOGARITHMIC;
  const [inside, outside] = isLog ? [Math.log, Math.exp] : [(value) => value, (value) => value];
  const room = (inside(most) - inside(least)) * 0.05 || Math.abs(inside(most)) * 0.1 || 1;
  const [low, high] = [inside(least) - room, inside(most) + room];
  const unit = unitOf(values, metric.unit);
  const ticks = ticksOf(outside(low) / unit[0], outside(high) / unit[0], isLog).map((tick) => tick * unit[0]);
  return {
    at: (value) => from + ((inside(value) - low) / (high - low)) * (to - from),
    ticks: ticks.map((tick) => [tick, String(Number((tick / unit[0]).toPrecision(6)))]),
    title: unit[1].trim() ? `${metric.label} (${unit[1].trim()})` : metric.label,
  };
};
const showScatter = () => {
  const [x, y, at] = all("select", scatter).map((select) => select.value);
  const metrics = [x, y].map((name) => data.metrics.find((metric) => metric.name === name));
  const medians = metrics.map((metric) => metric.summary.median);
  const problems = data.cells.problem;
  const cells = [...Array(size).keys()].filter((cell) => (at === "" || problems[cell] === Number(at))
    && isCorrect(cell) && medians.every((values) => Number.isFinite(values[cell]) && values[cell] !== null));
  const holder = scatter.querySelector("figure");
  if (!cells.length) {
    holder.replaceChildren(holder.querySelector("figcaption"), make("p", { class: "muted" }, "No cell has both."));
    return;
  }
  const across = spanOf(metrics[0], cells.map((cell) => medians[0][cell]), FRAME.left, FRAME.right);
  const upwards = spanOf(metrics[1], cells.map((cell) => medians[1][cell]), FRAME.bottom, FRAME.top);
  const text = (words, place) => make("text", place, words);
  const svg = make("svg", {
    viewBox: `0 0 ${FRAME.width} ${FRAME.height}`, role: "group", tabindex: "0", "aria-describedby": "walk-hint",
    "aria-label": `${upwards.title} against ${across.title}, ${cells.length} cells`,
  });
  for (const [tick, words] of across.ticks) {
    const place = across.at(tick);
    svg.append(make("line", { class: "grid", x1: place, x2: place, y1: FRAME.top, y2: FRAME.bottom }),
      text(words, { x: place, y: FRAME.bottom + 16, "text-anchor": "middle" }));
  }
  for (const [tick, words] of upwards.ticks) {
    const place = upwards.at(tick);
    svg.append(make("line", { class: "grid", x1: FRAME.left, x2: FRAME.right, y1: place, y2: place }),
      text(words, { x: FRAME.left - 6, y: place + 4, "text-anchor": "end" }));
  }
  svg.append(text(across.title, { x: (FRAME.left + FRAME.right) / 2, y: FRAME.height - 8, "text-anchor": "middle" }),
    text(upwards.title, { transform: `translate(14 ${(FRAME.top + FRAME.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }));
  const variants = data.cells.variant;
  for (const cell of cells) {
    const role = data.tags[variants[cell]]?.[0] ?? "other";
    svg.append(make("circle", {
      class: `mark is-${role}`, "data-variant": variants[cell], "data-cell": cell,
      cx: across.at(medians[0][cell]).toFixed(1), cy: upwards.at(medians[1][cell]).toFixed(1), r: role === "other" ? 3.6 : 5.4,
    }));
  }
  holder.replaceChildren(holder.querySelector("figcaption"), svg);
};
if (scatter) {
  const [x, y, at] = all("select", scatter);
  const shown = data.metrics.filter((metric) => metric.summary.median.some((value) => value !== null));
  for (const [select, wanted] of [[x, ["registers", shown.find(({ name }) => name !== data.primary)?.name]], [y, [data.primary]]]) {
    const chosen = wanted.find((name) => shown.some((metric) => metric.name === name));
    select.append(...shown.map(({ name, label }) => make("option", { value: name, selected: name === chosen }, label)));
  }
  at.append(make("option", { value: "" }, "all problems"),
    ...data.problems.map(({ name }, index) => make("option", { value: index, selected: index === data.largest }, name)));
  for (const select of [x, y, at]) select.addEventListener("change", showScatter);
  if (shown.length < 2) scatter.remove();
  else showScatter();
}
