// The details of a cell, and of two side by side: what stands behind the numbers of a row or a mark.

const pane = $("details");
const opened = { cells: [], pinned: false, metric: null, opener: null, row: null };
const problemNames = data?.problems?.map((problem) => problem.name) ?? [];
const nameOf = (variant) => data?.variants?.[Number(variant)]?.label ?? "";
const numberOf = (id) => (size ? data.cells.id.indexOf(id) : -1);

// ---- samples as dots -----------------------------------------------------------------------------
const WIDTH = 440;
const EDGE = 6;
const NAMES = 118; // room for the names of the sets
const ROW = 13;
const OWN_AXES = 8; // cells this many times their own spread apart get an axis each

const extent = (values) => [Math.min(...values), Math.max(...values)];
const groupOf = (index, metric, name) => {
  const fields = fieldsOf(metric, index);
  const sets = samplesOf(metric.name, index);
  const values = [...sets.flatMap(([, samples]) => samples), fields.low, fields.high, fields.median];
  return { name, index, fields, sets, extent: extent(values.filter((value) => value !== null)) };
};
const scaleOf = ([least, most]) => {
  const room = (most - least) * 0.04 || Math.abs(most) * 0.01 || 1;
  const [low, high] = [least - room, most + room];
  return (value) => NAMES + ((value - low) / (high - low)) * (WIDTH - NAMES - EDGE);
};
const band = (low, high, scale, from, to, css) => {
  const [left, right] = [low, high].map((value) => Math.min(WIDTH - EDGE, Math.max(NAMES, scale(value))));
  return make("rect", { class: css, x: left, y: from, width: Math.max(1, right - left), height: to - from });
};
const drawGroup = (svg, group, scale, top, unit) => {
  let y = top + ROW;
  svg.append(make("text", { x: EDGE, y }, group.name));
  y += ROW * 0.8;
  const { low, high, median } = group.fields;
  if (low !== null && low !== high) svg.append(band(low, high, scale, y - 4, y + 4, "interval"));
  if (median !== null) svg.append(make("line", { class: "median", x1: scale(median), x2: scale(median), y1: y - 6, y2: y + 6 }));
  for (const [name, values] of group.sets) {
    y += ROW;
    svg.append(make("text", { class: "set", x: EDGE, y: y + 4 }, name));
    for (const [place, value] of values.entries()) {
      const dot = make("circle", { cx: scale(value), cy: y + ((place % 3) - 1) * 2.5, r: 2.6 });
      dot.append(make("title", {}, `${place + 1}: ${show(value, unit)}`));
      svg.append(dot);
    }
  }
  return y + ROW;
};
const drawAxis = (svg, [least, most], scale, y, unit) => {
  svg.append(make("line", { class: "axis", x1: NAMES, x2: WIDTH - EDGE, y1: y, y2: y }));
  for (const [value, anchor] of least === most ? [[least, "middle"]] : [[least, "start"], [most, "end"]]) {
    svg.append(make("text", { class: "tick", x: scale(value), y: y + ROW, "text-anchor": anchor }, show(value, unit)));
  }
  return y + 1.6 * ROW;
};
// How much the baseline varies by itself, about its median: what is within it is no difference.
const noiseFloor = (svg, baseline, metric, scale, top, bottom) => {
  const reference = comparisonOf("reference");
  if (metric.name !== data.primary || !reference || baseline === undefined) return null;
  const floors = opened.cells.map((cell) => reference.ratios.noise_floor[cell]);
  const floor = floors.find((value) => value !== null) ?? null;
  const { median } = fieldsOf(metric, baseline);
  if (floor === null || median === null) return null;
  svg.prepend(band(median * (1 - floor), median * (1 + floor), scale, top, bottom, "floor"));
  return floor;
};
const dots = (metric) => {
  const cells = opened.cells.map((cell) => [cell, label(cell)]);
  const problem = data.cells.problem[opened.cells[0]];
  const baseline = cellAt(baselineVariant, problem);
  if (baseline !== undefined && !opened.cells.includes(baseline)) cells.push([baseline, `${label(baseline)}, the baseline`]);
  const groups = cells.map(([cell, name]) => groupOf(cell, metric, name))
    .filter((group) => group.fields.n !== null);
  const svg = make("svg", { class: "dots", role: "img" });
  if (!groups.some((group) => group.sets.length)) return [null, null];
  const together = extent(groups.flatMap((group) => group.extent));
  const widest = Math.max(...groups.map(({ extent: [least, most] }) => most - least));
  const own = together[1] - together[0] > OWN_AXES * widest;
  let y = 0;
  let floor = null;
  const scale = scaleOf(together);
  for (const group of groups) {
    const top = y;
    const ownScale = own ? scaleOf(group.extent) : scale;
    y = drawGroup(svg, group, ownScale, y, metric.unit);
    if (own && group.index === baseline) floor = noiseFloor(svg, baseline, metric, ownScale, top, y);
    if (own) y = drawAxis(svg, group.extent, ownScale, y, metric.unit);
  }
  if (!own) {
    floor = noiseFloor(svg, baseline, metric, scale, 0, y);
    y = drawAxis(svg, together, scale, y, metric.unit);
  }
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${y}`);
  svg.setAttribute("aria-label", `${metric.label}: samples of ${groups.map((group) => group.name).join("; ")}`);
  return [svg, floor, own];
};
const samplesPart = () => {
  const metrics = data.metrics.filter(({ name }) => opened.cells.some((cell) => samplesOf(name, cell).length));
  if (!metrics.length) return make("p", { class: "muted" }, "All samples of a metric are the same, or none were taken.");
  const metric = metrics.find(({ name }) => name === (opened.metric ?? data.primary)) ?? metrics[0];
  const select = make("select", {}, ...metrics.map(({ name, label: text }) => make("option", { value: name, selected: name === metric.name }, text)));
  const figure = make("div", {});
  const draw = () => {
    const chosen = metrics.find(({ name }) => name === select.value);
    const [svg, floor, own] = dots(chosen);
    const key = ["Dots: samples in the order of measurement. Bar: 95\u202f% interval of the median."];
    if (floor) key.push(`Shaded: the noise floor, \u00b1${(100 * floor).toFixed(2)}\u202f% about the baseline's median.`);
    if (own) key.push("An axis for each: they lie too far apart for one.");
    figure.replaceChildren(svg ?? "", make("p", { class: "reading" }, key.join(" ")));
  };
  select.addEventListener("change", () => { opened.metric = select.value; draw(); });
  draw();
  return make("div", {}, make("label", {}, "Samples of ", select), figure);
};

// ---- one cell: each part for one column --------------------------------------------------------------
const label = (cell) => nameOf(data.cells.variant[cell]);
const durationPart = (cell) => {
  const { name: full, label: short } = data.variants[cellOf(cell).variant];
  const { outcome, cause, missing_metrics: missing, duplicate_of: owner, blocks, slow } = cellOf(cell);
  const { also = [] } = data.variants[cellOf(cell).variant];
  const { n, median, low, high, min, max, rank, source: from } = primaryMetric ? fieldsOf(primaryMetric, cell) : { n: null };
  const written = (value) => show(value, primaryMetric.unit);
  const facts = [
    n === null ? "" : `${n} samples${from === "final" ? " of the confirmation" : ""}, from ${written(min)} to ${written(max)}`,
    blocks ? `${written(blocks[0])} in the ${blocks[1]} timing blocks` : "",
    slow ? `slow visits: ${slow[0]} of ${slow[1]} in the timing blocks took ${times(slow[2])} their median (${show(slow[3], "ns")}; p95 ${show(slow[4], "ns")})` : "",
    rank ? `rank ${rank} at this problem` : "",
    outcome === "measured" ? "" : data.outcomes[outcome][0] + (numberOf(owner) < 0 ? "" : ` as ${label(numberOf(owner))}`),
    also.length ? `also called ${also.join(", ")}` : "",
    missing?.length ? `asked for, but not delivered: ${missing.join(", ")}` : "",
  ];
  return make("div", {},
    full === short ? null : make("p", {}, make("code", { class: "full" }, full)),
    make("p", { class: "figure" }, n === null ? "\u2013" : written(median), " ", make("small", {}, n === null ? "" : interval(low, high, written))),
    make("p", { class: "muted" }, facts.filter(Boolean).join("; ")),
    cause ? make("pre", {}, cause) : null);
};
const verdictsPart = (cell) => make("dl", { class: "verdicts" }, ...data.comparisons.flatMap((comparison) => {
  const { ratio, ratio_low: low, ratio_high: high, verdict, within, reason } = against(comparison, cell);
  const found = data.verdicts.find(({ name }) => name === verdict);
  const numbers = ratio === null ? "" : [times(ratio), interval(low, high, times).replaceAll("\u00d7", "")].join(" ");
  return [
    make("dt", {}, `\u00f7 ${comparison.label}`),
    make("dd", {}, numbers, " ", make("small", {}, quotient(comparison, cell)), " ", found ? make("span", { class: `verdict ${found.css}` }, found.word + within) : null,
      make("span", { class: "reason" }, reason ?? "")),
  ];
}));
const kernelsPart = (cell) => {
  const kernels = data.cells.kernels[cell];
  if (!kernels.length) return make("p", { class: "muted" }, "Not recorded.");
  return make("ul", { class: "code" }, ...kernels.map((name) => make("li", {}, name)));
};
// What stands in the page already is copied from there.
const copyOf = (element) => {
  const copy = element.cloneNode(true);
  for (const part of [copy, ...all("[id]", copy)]) part.removeAttribute("id");
  return copy;
};
const buildPart = (cell) => {
  const variant = data.cells.variant[cell];
  const table = $("builds");
  const group = table && all("tbody", table).find((body) => body.dataset.variant === String(variant));
  if (!group) return make("p", { class: "muted" }, "Nothing was built for it.");
  const heads = [...table.tHead.rows[0].cells].slice(1).map((head) => head.textContent);
  return make("ul", {}, ...[...group.rows].map((row) => {
    const values = [...row.cells].filter((value) => value.scope !== "rowgroup");
    const facts = values.slice(0, -1).map((value, place) => (value.classList.contains("none") ? "" : `${heads[place]} ${value.textContent}`));
    return make("li", {}, make("span", { class: "code" }, values.at(-1).textContent), make("span", { class: "reason" }, facts.filter(Boolean).join(", ")));
  }));
};
const problemPart = (cell) => {
  const { facts } = data.problems[cellOf(cell).problem];
  return make("p", { class: "muted" }, facts.join(" ") || "The workload states no operations and no traffic.");
};
// What the counters of every cell tell, where no explain session counted more.
const countedPart = (cell) => {
  const percent = (name) => {
    const metric = data.metrics.find((one) => one.name === name);
    return metric ? [metric.label, metric.summary.median[cell]] : ["", null];
  };
  const [peak, near] = percent(cellOf(cell).nearest_peak);
  const [, efficiency] = percent("memory_efficiency_pct");
  const found = [
    near === null ? "" : `Nearest peak of those counted: ${peak}, ${show(near, "%")}.`,
    efficiency ? `Traffic to device memory: ${times(100 / efficiency)} the least that the workload states.` : "",
  ].filter(Boolean);
  return make("div", {},
    make("p", {}, found.join(" ") || "None of its counters tells what limits it."),
    data.of_parts ? null : make("p", { class: "muted" }, "Counted in full by ",
      make("code", { class: "explain" }, `${data.explain} ${cellOf(cell).id}`)));
};
const whyPart = (cell) => {
  const { id, outcome } = cellOf(cell);
  const parts = all("[data-explains]").filter((part) => part.dataset.explains.split(" ").includes(id));
  if (!parts.length) return data.outcomes[outcome][1] ? countedPart(cell) : make("p", { class: "muted" }, "It has no result to explain.");
  return make("div", { class: "why" }, ...parts.map((part) => {
    const copy = copyOf(part);
    if (copy.matches("details")) copy.open = true;
    return copy;
  }));
};
const commandPart = (cell) => {
  const { variant, problem } = cellOf(cell);
  const which = `variant=${data.variants[variant].id}`;
  const only = data.of_parts ? which : `problem=${data.problems[problem].id},${which}`;
  return make("p", {}, make("code", { class: "command" }, `${data.rerun} ${only}`));
};
const PARTS = [
  ["", durationPart],
  ["Verdicts", verdictsPart],
  ["Why", whyPart],
  ["Problem", problemPart],
  ["Kernels", kernelsPart],
  ["Build", buildPart],
  ["Measure it again", commandPart],
];

// ---- all counters, of both ---------------------------------------------------------------------------
const countersPart = () => {
  const { cells } = opened;
  const metrics = data.metrics.filter((metric) => cells.some((cell) => metric.summary.n[cell] !== null));
  const body = metrics.map((metric) => {
    const fields = cells.map((cell) => fieldsOf(metric, cell));
    const most = metric.unit === "%" ? 100 : Math.max(...fields.map(({ median }) => median ?? 0));
    return make("tr", {}, make("th", { scope: "row" }, metric.label), ...fields.map(({ n, median, low, high, min, max }) => {
      const written = (value) => show(value, metric.unit);
      const range = n === null || min === max ? "" : interval(low, high, written) || `${written(min)} to ${written(max)}`;
      const spread = [range, n === null ? "" : `${n} ${n === 1 ? "sample" : "samples"}`].filter(Boolean).join(", ");
      const step = most > 0 && median > 0 ? Math.min(20, Math.max(1, Math.round((20 * median) / most))) : 0;
      return make("td", { class: step ? `w${step}` : null }, written(median), " ", make("small", {}, spread));
    }));
  });
  const head = make("tr", {}, make("th", { scope: "col" }, "metric"), ...cells.map((cell) => make("th", { scope: "col" }, label(cell))));
  return make("table", { class: "plain counters" }, make("thead", {}, head), make("tbody", {}, ...body));
};

// ---- the pane ------------------------------------------------------------------------------------------
const chooser = (place) => {
  const cell = opened.cells[place];
  const { variant, problem } = cellOf(cell);
  const options = (names, at, has) => names.map((name, index) => (has(index)
    ? make("option", { value: index, selected: index === at }, name) : null)).filter(Boolean);
  const variants = make("select", { "aria-label": "Variant" },
    ...options(data.variants.map(({ label: text }) => text), variant, (index) => cellAt(index, problem) !== undefined));
  const problems = make("select", { "aria-label": "Problem" },
    ...options(problemNames, problem, (index) => cellAt(variant, index) !== undefined));
  const change = (select) => {
    opened.cells[place] = cellAt(Number(variants.value), Number(problems.value));
    showPane();
    all(".chooser", pane)[place].querySelector(`[aria-label="${select.getAttribute("aria-label")}"]`).focus();
  };
  for (const select of [variants, problems]) select.addEventListener("change", () => change(select));
  return make("div", { class: "chooser" }, variants, " ", problems);
};
const showPane = () => {
  const { cells } = opened;
  const side = (part) => make("div", { class: "side" }, ...cells.map((cell, place) => part(cell, place)));
  const content = [side((_, place) => chooser(place))];
  for (const [name, part] of PARTS) {
    if (name) content.push(make("h3", {}, name));
    content.push(side(part));
    if (part === verdictsPart) content.push(make("h3", {}, "Samples"), samplesPart());
  }
  content.push(make("h3", {}, "All counters"), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All counters" }, countersPart()));
  if (opened.row) content.push(make("h3", {}, "In this row"), rowPart(opened.row));
  $("details-body").replaceChildren(...content);
  $("details-h").textContent = cells.map((cell) => `${label(cell)}, ${problemNames[cellOf(cell).problem]}`).join(" \u2194 ");
  pane.classList.toggle("two", cells.length > 1);
  $("pin").hidden = false;
  $("pin").setAttribute("aria-pressed", String(opened.pinned));
  pane.hidden = false;
  light(String(cellOf(cells.at(-1)).variant));
  keep("cell", data.cells.id[cells[0]]);
  keep("beside", cells.length > 1 ? data.cells.id[cells[1]] : "");
};
const openCell = (cell, opener) => {
  if (cell === undefined || !pane) return;
  opened.cells = opened.pinned ? [opened.cells[0], cell] : [cell];
  if (opener) opened.opener = opener;
  showPane();
  pane.scrollTop = 0;
  if (opener) $("details-h").focus({ preventScroll: true });
};
const closePane = () => {
  if (!pane || pane.hidden) return;
  pane.hidden = true;
  opened.cells = [];
  opened.pinned = false;
  for (const key of ["cell", "beside"]) keep(key, "");
  light(null);
  const { opener } = opened;
  opened.opener = null;
  if (opener?.isConnected) {
    if (!opener.matches("[tabindex], a, button")) opener.setAttribute("tabindex", "-1");
    opener.focus({ preventScroll: true });
  }
};
// Keep this one: the next that is opened stands beside it; until then the baseline does, or the best.
const otherThan = (cell) => {
  const { problem } = cellOf(cell);
  const others = data.cells.problem.map((at, index) => (at === problem ? index : -1)).filter((index) => index >= 0 && index !== cell);
  const rank = (index) => primaryMetric?.summary.rank[index];
  return others.find((index) => cellOf(index).variant === baselineVariant) ?? others.find((index) => rank(index) === 1) ?? others[0];
};
$("pin")?.addEventListener("click", () => {
  opened.pinned = !opened.pinned;
  const [first] = opened.cells;
  const other = otherThan(first);
  opened.cells = opened.pinned && other !== undefined ? [first, other] : [first];
  showPane();
});
$("close")?.addEventListener("click", closePane);

// ---- a row with what stands behind its own columns, as rows of two runs and of steps have ------------------
const rowPart = (row) => {
  const heads = [...[...row.closest("table").tHead.rows].at(-1).cells];
  return make("dl", {}, ...[...row.cells].flatMap((value, place) => {
    const text = [value.textContent.trim(), value.title].filter(Boolean).join(" \u00b7 ");
    return text && heads[place] ? [make("dt", {}, heads[place].textContent), make("dd", {}, text)] : [];
  }));
};
const showRow = (row, opener) => {
  opened.cells = [];
  opened.pinned = false;
  pane.classList.remove("two");
  $("details-h").textContent = row.cells[0].textContent;
  $("details-body").replaceChildren(rowPart(row));
  $("pin").hidden = true;
  pane.hidden = false;
  opened.opener = opener;
  $("details-h").focus({ preventScroll: true });
};

// ---- what opens it ---------------------------------------------------------------------------------------
const CELLS = size
  ? "tbody :is(tr, td)[data-cell], tbody tr[data-variant], tbody tr:has(> td[title])"
  : "main table.sortable tbody tr";
const cellBehind = (target) => {
  const place = target.closest?.("[data-cell], [data-variant]");
  if (!place || !size) return undefined;
  if (place.dataset.cell !== undefined) return Number(place.dataset.cell);
  const problem = place.closest("[data-problem]")?.dataset.problem ?? opened.cells.map((cell) => cellOf(cell).problem).at(-1) ?? data.largest;
  const variant = Number(place.dataset.variant);
  return cellAt(variant, Number(problem)) ?? data.cells.variant.indexOf(variant);
};
// Opens what stands behind an element; says whether there is anything.
const openBehind = (target) => {
  if (!pane || target.closest("#details")) return false;
  const item = target.closest(`${CELLS}, .mark[data-variant]`);
  if (!item) return false;
  const opener = item.matches("tr") ? item.cells[0] : item;
  const beside = item.dataset.beside;
  const cell = cellBehind(item) ?? -1;
  if (cell < 0) {
    if (!item.matches("tr")) return false;
    showRow(item, opener);
    return true;
  }
  opened.row = item.matches("tr:not(#main-table tr):has(> td[title])") ? item : null;
  openCell(cell, opener);
  if (beside !== undefined) {
    opened.pinned = true;
    openCell(Number(beside), opener);
  }
  return true;
};
document.addEventListener("click", (event) => {
  if (event.target.closest("a, button, summary, input, select, label, #details")) return;
  if (event.detail < 2 && !getSelection().isCollapsed) return; // text was selected, to be copied
  openBehind(event.target);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closePane();
});
