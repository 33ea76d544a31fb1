// The table beside the figures of a metric, made from the page's data when it is opened: medians of
// correct cells by variant and problem, each problem in the unit that suits it.
const EXACT_BELOW = 1e6; // counts below it are written in full, as in words/numbers.py
const middle = (sorted) => {
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};
const unitOf = (values, unit) => {
  const sizes = values.filter(Boolean).map(Math.abs).sort((a, b) => a - b);
  const size = sizes.length ? Number(middle(sizes).toPrecision(4)) : 0;
  const scales = data.scales[unit];
  if (scales) return scales.find(([divisor]) => size >= divisor) ?? scales.at(-1);
  const [divisor, prefix] = COUNTS.find(([least]) => size >= Math.max(least, EXACT_BELOW)) ?? [1, ""];
  return [divisor, `${prefix} ${unit}`.trim()];
};
const inColumn = (value, [divisor, name]) => {
  const scaled = value / divisor;
  if (name === "%") return fixed(scaled, 1);
  return Number.isInteger(scaled) || Math.abs(scaled) >= 1e4 ? fixed(scaled, 0) : significant(scaled);
};
const isCorrect = (cell) => data.outcomes[cellOf(cell).outcome][1];
const whyMissing = (cell, metric) => {
  if (cell === undefined) return "not in the plan";
  const { outcome, cause, missing_metrics: missing } = cellOf(cell);
  const [word, correct] = data.outcomes[outcome];
  if (!correct) return cause ? `${word}: ${cause}` : word;
  return missing.includes(metric.name) ? "asked for, but the tool did not deliver it" : "not collected for this cell";
};
const headOf = (text, numeric) => make("th", { scope: "col", "aria-sort": "none", class: numeric && "num" },
  make("button", { type: "button", class: "sort" }, text));
const metricTable = (metric) => {
  const medians = metric.summary.median;
  const columns = data.problems.map(({ name }, problem) => {
    const cells = data.order.map((variant) => cellAt(variant, problem));
    const values = cells.map((cell) => (cell !== undefined && isCorrect(cell) ? medians[cell] : null));
    const unit = unitOf(values, metric.unit);
    return { name: unit[1] ? `${name} (${unit[1]})` : name, cells, values, unit };
  });
  const rowOf = (variant, place) => {
    const [role, word] = data.tags[variant] ?? [];
    const tag = role && make("span", { class: `tag is-${role}` }, word);
    return make("tr", { "data-variant": variant },
      make("th", { scope: "row" }, data.variants[variant].label, ...(tag ? [" ", tag] : [])),
      ...columns.map(({ cells, values, unit }) => {
        const [cell, value] = [cells[place], values[place]];
        const opens = { "data-cell": cell ?? null };
        if (value === null) return make("td", { ...opens, class: "none", title: whyMissing(cell, metric) }, "\u2013");
        return make("td", opens, inColumn(value, unit));
      }));
  };
  return make("table", { class: "sortable plain" },
    make("caption", {}, `${metric.label}: medians by variant and problem`),
    make("thead", {}, make("tr", {}, headOf("variant"), ...columns.map(({ name }) => headOf(name, true)))),
    make("tbody", {}, ...data.order.map(rowOf)));
};
document.addEventListener("toggle", ({ target }) => {
  const metric = target.open && data?.metrics.find(({ name }) => name === target.dataset.metric);
  if (!metric || target.querySelector("table")) return;
  const table = metricTable(metric);
  target.append(make("div", { class: "scroll" }, table));
  describe(firstOf(table));
  shade();
  table.dispatchEvent(new Event("made", { bubbles: true })); // for its downloads, and its scrolling by keyboard
}, true);
