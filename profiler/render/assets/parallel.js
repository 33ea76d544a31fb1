// Parallel coordinates of an autotune: an axis for each parameter that differs, the last one for the
// time against the best. Values of an axis are the check boxes of the table's filter, so that a choice
// here filters table and figures, and the other way round.
const parallel = $("parallel");
const LIMITS = [Infinity, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005]; // how much slower a line may be

const textOfParam = (value) => {
  if (value === undefined || value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False"; // as the check boxes are called
  return String(value);
};
const boxOf = (group, index) => boxes.find(({ dataset }) => dataset.group === String(group) && dataset.index === String(index));
const slowdowns = parallel ? data.cells.slowdown : [];

// The configurations at a problem, the slowest first, so that the best are drawn on top. References have
// other parameters: those are left out.
const linesAt = (problem) => {
  const byKeys = new Map();
  data.variants.forEach(({ params }, variant) => {
    const cell = cellAt(variant, problem);
    if (cell === undefined || slowdowns[cell] === null) return;
    const keys = Object.keys(params).join();
    byKeys.set(keys, [...(byKeys.get(keys) ?? []), { variant, params, ratio: slowdowns[cell] }]);
  });
  const [most = []] = [...byKeys.values()].sort((a, b) => b.length - a.length);
  return most.sort((a, b) => b.ratio - a.ratio);
};
const axesOf = (lines) => data.facets.groups.flatMap(({ label: name, values }, group) => {
  const [side, key] = name.split(" \u00b7 ");
  const present = values.filter((value) => lines.some(({ params }) => textOfParam(params[key]) === value)).sort(compareValues);
  return side === "variant" && present.length > 1 ? [{ key, group, values: present, all: values }] : [];
});
const GAP = 120;
const TOP = 46;
const HEIGHT = 250;
const LEFT = 60;
const LETTER = 8; // at most, of a name in bold
const leftOf = ([first]) => Math.max(LEFT, (first.key.length * LETTER) / 2); // its name stands in the middle
const placesOf = (lines, axes) => {
  const left = leftOf(axes);
  const [low, high] = extent(lines.map(({ ratio }) => Math.log(ratio)));
  const end = (ratio) => TOP + ((Math.log(ratio) - low) / (high - low || 1)) * HEIGHT;
  const at = (values, value) => TOP + ((values.indexOf(value) + 0.5) / values.length) * HEIGHT;
  // Lines through one value lie beside each other in the order of their times.
  const spread = (rank, values) => (0.5 - (rank + 0.5) / lines.length) * Math.min(46, (0.6 * HEIGHT) / values.length);
  const points = ({ params, ratio }, rank) => [
    ...axes.map(({ key, values }, place) => [left + place * GAP, at(values, textOfParam(params[key])) + spread(rank, values)]),
    [left + axes.length * GAP, end(ratio)],
  ];
  const ticks = [0, 1 / 3, 2 / 3, 1].map((part) => Math.exp(low + part * (high - low)));
  return { end, at, points, ticks };
};
const axisOf = (name, place, left) => {
  const x = left + place * GAP;
  return [
    make("line", { class: "axis", x1: x, x2: x, y1: TOP, y2: TOP + HEIGHT }),
    make("text", { class: "name", x, y: place % 2 ? 14 : 30, "text-anchor": "middle" }, name),
  ];
};
const brushOf = ({ key, group, all: values }, value, x, y) => {
  const place = values.indexOf(value);
  const input = boxOf(group, place);
  const brush = make("g", {
    class: "brush", role: "checkbox", tabindex: "0", "aria-checked": String(input.checked),
    "aria-label": `${key} ${value}`, "data-axis": group, "data-place": place,
  }, make("rect", { x: x - 28, y: y - 11, width: 56, height: 22, rx: 4 }), make("text", { x, y: y + 4, "text-anchor": "middle" }, value));
  const toggle = () => { input.checked = !input.checked; filter(); };
  brush.addEventListener("click", toggle);
  brush.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
  return brush;
};
const showParallel = () => {
  const problem = Number(parallel.querySelector("select").value);
  const holder = parallel.querySelector("figure");
  const put = (drawing) => holder.replaceChildren(holder.querySelector("figcaption"), drawing);
  const lines = linesAt(problem);
  const axes = axesOf(lines);
  holder.dataset.problem = problem;
  if (!axes.length) {
    put(make("p", { class: "muted" }, "No two configurations differ at this problem."));
    return;
  }
  const { end, at, points, ticks } = placesOf(lines, axes);
  const left = leftOf(axes);
  const width = left + axes.length * GAP + 90;
  const svg = make("svg", {
    viewBox: `0 0 ${width} ${TOP + HEIGHT + 16}`, role: "group", tabindex: "0", "aria-describedby": "walk-hint",
    "aria-label": `${lines.length} configurations by parameter and time`,
  });
  svg.style.maxWidth = `${Math.round(width * 1.25)}px`;
  lines.forEach((line, rank) => svg.append(make("path", {
    class: `mark line${rank >= lines.length * 0.9 ? " quick" : ""}`, "data-variant": line.variant,
    d: "M" + points(line, rank).map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L"),
  })));
  axes.forEach((axis, place) => svg.append(
    ...axisOf(axis.key, place, left),
    ...axis.values.map((value) => brushOf(axis, value, left + place * GAP, at(axis.values, value))),
  ));
  svg.append(...axisOf("\u00f7 best", axes.length, left), ...ticks.map((ratio) => make("text", {
    class: "tick", x: left + axes.length * GAP + 8, y: end(ratio) + 4,
  }, times(ratio))));
  put(svg);
};
const within = () => LIMITS[Number(parallel.querySelector("input").value)];
// Variants that the filter leaves out fade in all figures and heat maps.
const fade = (passing, everything) => {
  const variants = data.cells.variant;
  const kept = new Set([...passing].map((cell) => String(variants[cell])));
  for (const item of all("#figures .mark, .heat tr[data-variant]")) {
    item.classList.toggle("out", !everything && !kept.has(item.dataset.variant));
  }
};
if (parallel) {
  const [select, range] = [parallel.querySelector("select"), parallel.querySelector("input")];
  select.append(...data.problems.map(({ name }, index) => make("option", { value: index, selected: index === data.largest }, name)));
  select.addEventListener("change", () => {
    showParallel();
    keep("at", Number(select.value) === data.largest ? "" : select.value);
  });
  range.max = LIMITS.length - 1;
  range.addEventListener("input", () => { keep("within", range.value === "0" ? "" : range.value); filter(); });
  conditions.push((cell) => within() === Infinity || (slowdowns[cell] !== null && slowdowns[cell] <= 1 + within()));
  filtered.push((passing, everything) => {
    const limit = within();
    parallel.querySelector("output").textContent = limit === Infinity ? "any time" : `at most ${1 + limit}\u00d7 that of the best`;
    range.setAttribute("aria-valuetext", parallel.querySelector("output").textContent);
    for (const brush of all(".brush", parallel)) {
      const input = boxOf(brush.dataset.axis, brush.dataset.place);
      if (input) brush.setAttribute("aria-checked", String(input.checked));
    }
    fade(passing, everything);
  });
}
const restoreParallel = () => {
  if (!parallel) return;
  const problem = Number(state.get("at") ?? data.largest);
  parallel.querySelector("input").value = state.get("within") ?? 0;
  if (data.problems[problem]) parallel.querySelector("select").value = problem;
  showParallel();
};
