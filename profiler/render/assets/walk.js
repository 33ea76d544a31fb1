// By keyboard through rows, cells of heat maps and marks of figures: a table or a figure is one stop of
// the Tab key, arrows walk inside it, Enter opens the details.
const WALKED = "tbody :is(th, td)[tabindex]";
const firstOf = (table) => {
  const first = table.querySelector(CELLS);
  return first?.matches("tr") ? first.cells[0] : first;
};
const describe = (item) => {
  for (const stop of all("tbody [tabindex='0']", item.closest("table"))) stop.setAttribute("tabindex", "-1");
  item.setAttribute("tabindex", "0");
  if ($("walk-hint")) item.setAttribute("aria-describedby", "walk-hint");
};
// The stop of a table is a row that is shown.
filtered.push(() => {
  const stop = main.querySelector("tbody [tabindex='0']");
  if (!stop?.closest("tr").hidden) return;
  const first = rows.find((row) => !row.hidden);
  describe(first ? first.cells[0] : stop);
});
const makeStops = () => {
  if (!pane) return;
  for (const table of all("main table:has(tbody tr)")) {
    const first = firstOf(table);
    if (first) describe(first);
  }
  for (const svg of all("main figure svg")) {
    if (!svg.querySelector(".mark")) continue;
    svg.setAttribute("role", "group"); // an image would hide the marks inside it
    svg.setAttribute("tabindex", "0");
    if ($("walk-hint")) svg.setAttribute("aria-describedby", "walk-hint");
  }
};
const moveTo = (from, to) => {
  if (!to || to === from) return;
  if (from.matches("td, th")) {
    describe(to);
  } else {
    to.setAttribute("tabindex", "-1");
    to.setAttribute("role", "button");
    to.setAttribute("aria-label", markTitle(to));
  }
  to.focus();
};
const inTable = (item, key) => {
  const row = item.parentElement;
  const shown = [...row.parentElement.rows].filter((other) => !other.hidden);
  const at = shown.indexOf(row);
  const walked = [...row.cells].filter((other) => other === row.cells[0] || other.dataset.cell !== undefined);
  const place = walked.indexOf(item);
  const next = { ArrowUp: shown[at - 1], ArrowDown: shown[at + 1], Home: shown[0], End: shown.at(-1) }[key];
  if (next) return next.cells[item.cellIndex];
  return { ArrowLeft: walked[place - 1], ArrowRight: walked[place + 1] }[key];
};
const inFigure = (item, key) => {
  const marks = all(".mark", item.closest("svg"));
  const at = item.matches(".mark") ? marks.indexOf(item) : -1;
  return {
    ArrowLeft: marks[Math.max(0, at - 1)], ArrowUp: marks[Math.max(0, at - 1)],
    ArrowRight: marks[at + 1], ArrowDown: marks[at + 1], Home: marks[0], End: marks.at(-1),
  }[key];
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const item = event.target;
  const figure = item.matches?.("figure svg[tabindex], .mark");
  if (!figure && !item.matches?.(WALKED)) return;
  if (event.key === "Enter" || event.key === " ") {
    if (openBehind(item)) event.preventDefault();
    return;
  }
  const to = figure ? inFigure(item, event.key) : inTable(item, event.key);
  if (to) {
    event.preventDefault();
    moveTo(item, to);
  }
});
