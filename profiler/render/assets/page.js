// What belongs to the whole page: highlights, one of several blocks at a time, themes, and the start.

// ---- rows and marks of one variant light each other up ---------------------------------------------
const light = (variant) => {
  all(".on").forEach((item) => item.classList.remove("on"));
  root.classList.toggle("lit", variant !== null);
  if (variant === null) return;
  all(`tr[data-variant="${variant}"], .mark[data-variant="${variant}"]`).forEach((item) => item.classList.add("on"));
};
const variantOf = (target) => target.closest?.("tr[data-variant], .mark[data-variant]")?.dataset.variant ?? null;
const hovered = (event) => {
  if (opened.cells.length) return; // that of the open details stays lit
  light(variantOf(event.target));
};
document.addEventListener("mouseover", hovered);
document.addEventListener("focusin", hovered);
const markTitle = ({ dataset }) => {
  const name = nameOf(dataset.variant) + (dataset.hover ? `: ${dataset.hover}` : "");
  if (dataset.cell === undefined || !size) return name;
  const cell = Number(dataset.cell);
  const median = primaryMetric ? `: ${show(fieldsOf(primaryMetric, cell).median, primaryMetric.unit)}` : "";
  return `${name}, ${problemNames[data.cells.problem[cell]]}${median}`;
};
document.addEventListener("mouseover", (event) => { // names of marks, where they are asked for
  const mark = event.target.closest?.(".mark");
  if (mark && !mark.querySelector("title")) mark.append(make("title", {}, markTitle(mark)));
});

// ---- one of several blocks at a time -----------------------------------------------------------------
const choose = (group, index) => {
  all(":scope > .choice", group).forEach((block, number) => { block.open = number === index; });
};
for (const group of all(".switch")) {
  const select = group.querySelector("select");
  select?.addEventListener("change", () => {
    choose(group, select.selectedIndex);
    keep(group.dataset.switch, select.selectedIndex ? String(select.selectedIndex) : "");
  });
}

// ---- light and dark, links into folded parts ---------------------------------------------------------
$("theme")?.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
// What lies above a target is laid out only as it comes near the window, and moves the target when it
// is: scroll until it stays where it is for some frames, or the reader moves the page.
const STEADY_FRAMES = 10;
const MOST_FRAMES = 120;
let following = null; // the target that is being scrolled to
const scrollToStay = (target, steady = 0, frames = 0) => {
  if (following !== target || steady === STEADY_FRAMES || frames === MOST_FRAMES) return;
  const before = target.getBoundingClientRect().top;
  target.scrollIntoView();
  const moved = Math.abs(target.getBoundingClientRect().top - before) >= 1;
  requestAnimationFrame(() => scrollToStay(target, moved ? 0 : steady + 1, frames + 1));
};
for (const input of ["wheel", "touchstart", "pointerdown", "keydown"]) {
  addEventListener(input, () => { following = null; }, { capture: true, passive: true });
}
const reveal = () => {
  if (location.hash.length < 2 || location.hash.startsWith("#?")) return;
  const id = decodeURIComponent(location.hash.slice(1));
  const target = $(id);
  const cell = target || !id.startsWith("cell-") ? -1 : numberOf(id.slice("cell-".length));
  if (cell >= 0) openCell(cell);
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  following = target;
  if (target) scrollToStay(target);
};
addEventListener("hashchange", reveal);

// ---- the start: what the address says ------------------------------------------------------------------
const restoreTable = () => {
  const off = new Set((state.get("off") ?? "").split("_"));
  boxes.forEach((box) => { box.checked = !off.has(box.dataset.group + "." + box.dataset.index); });
  const unwanted = new Set((state.get("verdicts") ?? "").split("_"));
  verdictBoxes.forEach((box) => { box.checked = !unwanted.has(box.dataset.verdict); });
  const hidden = new Set((state.get("columns") ?? "").split("_"));
  columnBoxes.forEach((box) => { box.checked = !hidden.has(box.dataset.column); });
  chooseColumns();
  if ($("find")) {
    $("find").value = state.get("find") ?? "";
    if (["find", "off", "verdicts", "within"].some((key) => state.has(key))) filter(); else announce(rows.length);
  }
  const baseline = $("baseline");
  if (baseline && [...baseline.options].some((option) => option.value === state.get("baseline"))) {
    baseline.value = state.get("baseline");
    showBaseline(baseline.value);
  }
  const sort = /^(\d+)\.(ascending|descending)$/.exec(state.get("sort") ?? "");
  if (main && sort) sortBy(main, Number(sort[1]), sort[2]);
};
const restoreDetails = () => {
  const [cell, beside] = ["cell", "beside"].map((key) => numberOf(state.get(key) ?? ""));
  if (!pane || cell < 0) return;
  openCell(cell);
  if (beside < 0) return;
  opened.pinned = true;
  openCell(beside);
};
const restore = () => {
  readState();
  restoreParallel();
  restoreTable();
  for (const group of all(".switch")) {
    const select = group.querySelector("select");
    const index = Number(state.get(group.dataset.switch) ?? 0);
    if (select && index < select.options.length) { select.selectedIndex = index; choose(group, index); }
  }
  restoreDetails();
};
restore();
makeStops();
restoring = false;
reveal();
shade();
watchSticky();

// ---- what is far from the window is laid out bit by bit, so that a picture of the whole page has it ------
const soon = window.requestIdleCallback ?? ((call) => setTimeout(call, 50));
const unlaid = all("section, .block, .chart");
const layOut = (idle) => {
  do {
    const part = unlaid.shift();
    if (!part) return;
    part.style.contentVisibility = "visible";
    part.getBoundingClientRect(); // now, while there is time
  } while (idle?.timeRemaining?.() > 8);
  soon(layOut, { timeout: 500 });
};
const layOutSoon = () => soon(layOut, { timeout: 500 });
if (document.readyState === "complete") layOutSoon(); else addEventListener("load", layOutSoon);
