// Every number of the page as CSV and as JSON.
const quoted = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const asCsv = () => {
  const params = [...new Set(data.problems.flatMap((problem) => Object.keys(problem.params)))];
  const fields = Object.keys(data.metrics[0]?.summary ?? {});
  const judged = comparisonOf("reference"); // of the primary metric only
  const lines = [["cell", "variant", ...params, "outcome", "metric", ...fields, "verdict"].map(quoted).join(",")];
  for (let index = 0; index < size; index += 1) {
    const cell = cellOf(index);
    const problem = data.problems[cell.problem];
    const head = [cell.id, data.variants[cell.variant].name, ...params.map((key) => problem.params[key]), cell.outcome];
    const verdict = judged ? against(judged, index).verdict : null;
    const found = measured(index).map((metric) => [
      metric.name, ...Object.values(fieldsOf(metric, index)), metric.name === data.primary ? verdict : null,
    ]);
    for (const row of found.length ? found : [["", ...fields.map(() => ""), ""]]) {
      lines.push([...head, ...row].map(quoted).join(","));
    }
  }
  return lines.join("\n") + "\n";
};
const asJson = () => {
  const {
    facets: groups, comparisons, cells: columns, verdicts, samples, scales, largest, rerun, explain, order, tags, outcomes,
    ...rest
  } = data;
  const metrics = data.metrics.map(({ summary, ...metric }) => metric);
  const cells = Array.from({ length: size }, (_, index) => {
    const cell = cellOf(index);
    return {
      ...cell,
      variant: data.variants[cell.variant].id,
      problem: data.problems[cell.problem].id,
      against: Object.fromEntries(comparisons.map((comparison) => [comparison.key, against(comparison, index)])),
      metrics: Object.fromEntries(measured(index).map((metric) => [metric.name, fieldsOf(metric, index)])),
    };
  });
  return JSON.stringify({ ...rest, metrics, cells }, null, 1) + "\n";
};
$("save-csv")?.addEventListener("click", () => save(`${data.experiment}.csv`, new Blob([asCsv()], { type: "text/csv" })));
$("save-json")?.addEventListener("click", () => save(`${data.experiment}.json`, new Blob([asJson()], { type: "application/json" })));
