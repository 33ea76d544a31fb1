// Tables: sorting, filtering, the baseline of the ratios, columns that stick, that are chosen, and that go on.

// ---- sorting -------------------------------------------------------------------------------------
const MISSING_CLASSES = ["none", "failed", "nothing", "is-no-data"];
const sortValue = (cell) => {
  if (!cell) return null;
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  if (MISSING_CLASSES.some((name) => cell.classList.contains(name))) return null;
  const text = cell.textContent.trim();
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
};
const collator = new Intl.Collator("en", { numeric: true });
const compareValues = (a, b) => {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
};
const sortBy = (table, place, direction) => {
  const heads = all("thead th", table);
  heads.forEach((head, index) => head.setAttribute("aria-sort", index === place ? direction : "none"));
  const sign = direction === "descending" ? -1 : 1;
  const keyed = [...table.tBodies[0].rows].map((row) => [sortValue(row.cells[place]), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // missing is last either way
    return sign * compareValues(a, b);
  });
  table.classList.add("sorted"); // lines between problems say nothing any more
  table.tBodies[0].append(...keyed.map(([, row]) => row));
};
document.addEventListener("click", (event) => {
  const head = event.target.closest?.(".sort")?.closest("th");
  const table = head?.closest("table.sortable");
  if (!table) return;
  const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  sortBy(table, head.cellIndex, direction);
  if (table.id === "main-table") keep("sort", `${head.cellIndex}.${direction}`);
});

// ---- filtering -----------------------------------------------------------------------------------
const main = $("main-table");
const rows = main ? [...main.tBodies[0].rows] : [];
const texts = new Map();
const textOf = (row) => {
  if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
  return texts.get(row);
};
const boxes = all("input[data-group]");
const verdictBoxes = all("input[data-verdict]");
const facets = data?.facets?.cells ?? [];
const conditions = []; // further ones that a cell must pass
const filtered = []; // called with the set of cells that pass, after each change
const announce = (shown) => {
  $("count").textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
  $("empty").hidden = shown > 0 || rows.length === 0;
};
const filter = () => {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const off = new Set(boxes.filter((box) => !box.checked).map((box) => box.dataset.group + "." + box.dataset.index));
  const unwanted = new Set(verdictBoxes.filter((box) => !box.checked).map((box) => box.dataset.verdict));
  const passing = new Set();
  for (const row of rows) {
    const cell = Number(row.dataset.cell);
    row.hidden = !(words.every((word) => textOf(row).includes(word))
      && !unwanted.has(row.dataset.verdict)
      && !facets.some((values, group) => off.has(group + "." + values[cell]))
      && conditions.every((passes) => passes(cell)));
    if (!row.hidden) passing.add(cell);
  }
  const shown = passing.size;
  announce(shown);
  keep("find", $("find").value);
  keep("off", [...off].join("_"));
  keep("verdicts", [...unwanted].join("_"));
  for (const call of filtered) call(passing, shown === rows.length);
};
const clearFilters = () => {
  $("find").value = "";
  for (const box of [...boxes, ...verdictBoxes]) box.checked = true;
  for (const range of all("#parallel input")) {
    range.value = 0;
    keep("within", "");
  }
  filter();
};
if ($("find")) {
  $("find").addEventListener("input", filter);
  [...boxes, ...verdictBoxes].forEach((box) => box.addEventListener("change", filter));
  for (const button of [$("reset"), $("empty").querySelector("button")]) {
    button.addEventListener("click", () => { clearFilters(); if (button !== $("reset")) $("find").focus(); });
  }
}
const writes = (target) => target.closest?.("input, select, textarea, [contenteditable]");
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || writes(event.target) || !$("find")) return;
  event.preventDefault();
  $("find").focus();
  $("find").select();
});

// ---- baselines: the ratios of each were computed before ------------------------------------------
const showBaseline = (key) => {
  const comparison = comparisonOf(key);
  if (!comparison) return;
  const { ratio: ratios, verdict: verdicts, within: margins } = comparison.ratios;
  for (const row of rows) {
    const number = Number(row.dataset.cell);
    const verdict = data.verdicts[verdicts[number]];
    const said = row.querySelector("td.verdict");
    said.className = `stuck verdict ${verdict ? verdict.css : "none"}`;
    said.textContent = verdict ? verdict.word + margins[number] : "\u2013";
    row.dataset.verdict = verdict ? verdict.css : "";
    if (verdict && verdict.name !== "no data") said.dataset.value = verdicts[number]; else delete said.dataset.value;
    const ratio = row.querySelector("td.ratio");
    ratio.classList.toggle("none", ratios[number] === null);
    ratio.textContent = times(ratios[number]);
    ratio.title = quotient(comparison, number);
    if (ratios[number] === null) delete ratio.dataset.value; else ratio.dataset.value = ratios[number];
  }
  if ($("find")) {
    texts.clear();
    filter();
  }
};
$("baseline")?.addEventListener("change", (event) => {
  showBaseline(event.target.value);
  keep("baseline", event.target.selectedIndex ? event.target.value : "");
});

// ---- columns that stick: the key columns always, those of the problem as far as they leave room -------
const MOST_STUCK = 0.68; // of the width of the table
const sheet = (id) => {
  if (!$(id)) document.head.append(make("style", { id }));
  return $(id);
};
const widthOf = (heads) => heads.reduce((sum, head) => sum + head.offsetWidth, 0);
const stuckHeads = (table) => {
  const room = table.closest(".scroll").clientWidth * MOST_STUCK;
  const stuck = [...table.tHead.rows[0].cells].filter((head) => head.classList.contains("stuck") && head.offsetWidth > 0);
  const always = stuck.filter((head) => !head.classList.contains("of-problem"));
  return [stuck, always].find((heads) => widthOf(heads) <= room) ?? stuck.slice(0, 1);
};
const sticky = new Set(); // tables that came near the window: to measure others would lay them out
const stick = () => {
  const rules = [];
  for (const table of sticky) {
    const heads = stuckHeads(table);
    heads.forEach((head, place) => {
      const left = widthOf(heads.slice(0, place));
      const right = place === 0 ? "auto" : `${widthOf(heads.slice(place + 1))}px`;
      rules.push(`#${table.id} tr > :nth-child(${head.cellIndex + 1}) { position: sticky; left: ${left}px; right: ${right}; }`);
    });
  }
  sheet("stuck").textContent = `@media screen { ${rules.join("\n")} }`;
};

const nearWindow = new IntersectionObserver((entries) => {
  const near = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
  if (!near.length) return;
  for (const table of near) {
    sticky.add(table);
    nearWindow.unobserve(table);
  }
  stick();
}, { rootMargin: "50%" });
const watchSticky = () => {
  for (const table of all("table[data-sticky]")) nearWindow.observe(table);
};

// ---- columns that are chosen ---------------------------------------------------------------------
const columnBoxes = all("input[data-column]");
const chooseColumns = () => {
  const hidden = columnBoxes.filter((box) => !box.checked).map((box) => box.dataset.column);
  const places = hidden.map((place) => `#main-table tr > :nth-child(${place})`);
  sheet("hidden-columns").textContent = places.length ? `${places.join(", ")} { display: none; }` : "";
  keep("columns", hidden.join("_"));
};
columnBoxes.forEach((box) => box.addEventListener("change", () => { chooseColumns(); stick(); shade(); }));

// ---- a shade where columns go on: of what is in view, whose layout is known --------------------------
const shadeOf = (boxes) => {
  const rest = boxes.map((box) => box.scrollWidth - box.clientWidth - box.scrollLeft); // read all, then write
  boxes.forEach((box, place) => box.classList.toggle("goes-on", rest[place] > 2));
};
const inView = new IntersectionObserver((entries) => {
  shadeOf(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
});
const shade = () => {
  inView.disconnect();
  for (const box of all(".scroll, .grid-map")) inView.observe(box);
};
document.addEventListener("scroll", (event) => {
  if (event.target.matches?.(".scroll, .grid-map")) shadeOf([event.target]);
}, { capture: true, passive: true });
addEventListener("resize", () => { stick(); shade(); });
