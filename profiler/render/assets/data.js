// The data of the page, each table by columns, and numbers as people read them. All statistics were
// computed before; nothing here makes one. The scripts that follow wait until the data are unpacked.
const root = document.documentElement;
const data = $("data") ? await unpacked($("data")) : null;
root.classList.add("js");

const size = data?.cells?.variant?.length ?? 0;
const primaryMetric = data?.metrics?.find(({ name }) => name === data.primary);
const baselineVariant = data?.variants?.findIndex(({ id }) => id === data.baseline);
const comparisonOf = (key) => data?.comparisons?.find((comparison) => comparison.key === key);
const valuesAt = (table, index) => Object.fromEntries(
  Object.entries(table).map(([name, column]) => [name, column[index]]),
);
const cellOf = (index) => valuesAt(data.cells, index);
const fieldsOf = (metric, index) => valuesAt(metric.summary, index);
const measured = (index) => data.metrics.filter((metric) => metric.summary.n[index] !== null);
const against = (comparison, index) => {
  const { ratio, low, high, verdict, within, title } = valuesAt(comparison.ratios, index);
  return { ratio, ratio_low: low, ratio_high: high, verdict: data.verdicts[verdict]?.name ?? null, within, reason: title };
};
// The two durations that a ratio is of, in the blocks that both cells have.
const quotient = (comparison, index) => {
  const { median: over, against_median: under } = valuesAt(comparison.ratios, index);
  return over === null || under === null ? "" : `${show(over, "ns")} \u00f7 ${show(under, "ns")}`;
};

// Index of the cell of a variant at a problem, both by their index; undefined where it is not in the plan.
const cellNumbers = new Map();
if (size) {
  const problems = data.cells.problem;
  data.cells.variant.forEach((variant, index) => cellNumbers.set(`${variant}.${problems[index]}`, index));
}
const cellAt = (variant, problem) => cellNumbers.get(`${variant}.${problem}`);

// Samples of a metric in a cell: [name of the set, values] each; none where all are the same.
const samplesOf = (metric, index) => data.samples[metric]?.[index] ?? [];

// ---- numbers: as words/numbers.py writes them ----------------------------------------------------
// As Python rounds: a number in the middle between two goes to the even one.
const fixed = (value, digits) => {
  const below = Math.floor(value * 10 ** digits);
  const isMiddle = value * 10 ** digits - below === 0.5 && Number.isInteger(value * 2 ** (digits + 1));
  return isMiddle ? ((below + (below % 2 ? 1 : 0)) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
};
const significant = (value, digits = 4) => {
  const rounded = Number(value.toPrecision(digits));
  const size = Math.abs(rounded);
  if (rounded === 0) return "0";
  if (size < 1e-4 || size >= 10 ** digits) return String(rounded);
  return rounded.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
};
const COUNTS = [[1e12, "T"], [1e9, "G"], [1e6, "M"]];
const count = (value) => {
  const [divisor, prefix] = COUNTS.find(([divisor]) => Math.abs(value) >= divisor) ?? [];
  if (divisor) return `${significant(value / divisor)}\u202f${prefix}`;
  if (Number.isInteger(value) || Math.abs(value) >= 1000) {
    return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  }
  return String(Number(value.toPrecision(4)));
};
const show = (value, unit) => {
  if (value === null || value === undefined) return "\u2013";
  const scales = data?.scales?.[unit];
  if (!scales) return count(value);
  const rounded = Math.abs(Number(value.toPrecision(4)));
  const [divisor, name] = scales.find(([divisor]) => rounded >= divisor) ?? scales.at(-1);
  if (name === "%") return `${fixed(value, 1)}\u202f%`;
  const whole = divisor === 1 && Number.isInteger(value);
  return `${whole ? value : significant(value / divisor)}\u202f${name}`;
};
const times = (ratio) => {
  if (ratio === null || ratio === undefined) return "\u2013";
  if (Math.abs(ratio) >= 1000) return `${ratio.toFixed(0)}\u00d7`;
  if (Math.abs(ratio) < 0.01) return `${significant(ratio, 3)}\u00d7`;
  return `${Math.abs(ratio) < 10 ? ratio.toFixed(3) : significant(ratio, 3)}\u00d7`;
};
const interval = (low, high, written) => (low === null || low === high ? "" : `[${written(low)}, ${written(high)}]`);
