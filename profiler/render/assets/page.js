// What a reader can do with the page: sort, filter, compare, highlight, download. All numbers and
// all ratios were computed before; nothing here calculates a statistic.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const $ = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const source = $("data");
  const data = source ? JSON.parse(source.textContent) : null;
  const state = new Map();

  // ---- the data stand by columns, each in the shortest of five forms --------------------------------
  const size = data?.cells?.id?.length ?? 0;
  const comparisonOf = (key) => data?.comparisons?.find((one) => one.key === key);
  for (const one of data?.comparisons ?? []) {
    if (typeof one.ratios === "string") one.ratios = comparisonOf(one.ratios).ratios; // the same as another
  }
  const decoded = new Map();
  const column = (table, name) => {
    let one = table[name];
    if (typeof one === "string") one = table[one]; // the same as another column
    if (Array.isArray(one)) return one;
    if (!decoded.has(one)) {
      const values = one.values ?? one.texts.map((places) => places.map((place) => one.parts[place]).join(""));
      decoded.set(one, one.index ? one.index.map((place) => values[place]) : Array(size).fill(values[0]));
    }
    return decoded.get(one);
  };
  const cellOf = (index) => Object.fromEntries(
    Object.keys(data.cells).map((name) => [name, column(data.cells, name)[index]]),
  );
  const fieldsOf = (metric, index) => {
    const fields = Object.keys(metric.summary);
    return Object.fromEntries(fields.map((name) => [name, column(metric.summary, name)[index]]));
  };
  const measured = (index) => data.metrics.filter((metric) => column(metric.summary, "n")[index] !== null);

  // ---- state in the address: #?find=online&sort=main-table.3.ascending ----------------------------
  const readState = () => {
    state.clear();
    if (location.hash.startsWith("#?")) {
      for (const [key, value] of new URLSearchParams(location.hash.slice(2))) state.set(key, value);
    }
  };
  let restoring = true; // until the state of the address is read, nothing is written to it
  const keep = (key, value) => {
    if (restoring) return;
    if (value === "" || value === null) state.delete(key); else state.set(key, value);
    const text = new URLSearchParams([...state]).toString();
    history.replaceState(null, "", text ? "#?" + text : location.pathname + location.search);
  };

  // ---- sorting -----------------------------------------------------------------------------------
  const sortValue = (cell) => {
    if (!cell) return null;
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    if (["none", "failed", "nothing", "is-no-data"].some((name) => cell.classList.contains(name))) return null;
    const text = cell.textContent.trim();
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sortBy = (table, column, direction) => {
    const heads = all("thead th", table);
    heads.forEach((head, index) => head.setAttribute("aria-sort", index === column ? direction : "none"));
    const sign = direction === "descending" ? -1 : 1;
    const rows = [...table.tBodies[0].rows].map((row) => [sortValue(row.cells[column]), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null); // missing is last either way
      return sign * compare(a, b);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const table of all("table.sortable")) {
    all("thead th", table).forEach((head, column) => {
      head.querySelector("button")?.addEventListener("click", () => {
        const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        sortBy(table, column, direction);
        if (table.id === "main-table") keep("sort", `${column}.${direction}`);
      });
    });
  }

  // ---- filtering ---------------------------------------------------------------------------------
  const main = $("main-table");
  const rows = main ? [...main.tBodies[0].rows] : [];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const boxes = all("input[data-group]");
  const verdictBoxes = all("input[data-verdict]");
  const facets = data?.facets?.cells.map((_, group) => column(data.facets.cells, group)) ?? [];
  const filter = () => {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const off = new Set(boxes.filter((box) => !box.checked).map((box) => box.dataset.group + "." + box.dataset.index));
    const unwanted = new Set(verdictBoxes.filter((box) => !box.checked).map((box) => box.dataset.verdict));
    let shown = 0;
    for (const row of rows) {
      const cell = Number(row.dataset.cell);
      const wanted = words.every((word) => texts.get(row).includes(word))
        && !unwanted.has(row.dataset.verdict)
        && !facets.some((values, group) => off.has(group + "." + values[cell]));
      row.hidden = !wanted;
      shown += wanted ? 1 : 0;
    }
    $("count").textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
    keep("find", $("find").value);
    keep("off", [...off].join("_"));
    keep("verdicts", [...unwanted].join("_"));
  };
  if ($("find")) {
    $("find").addEventListener("input", filter);
    [...boxes, ...verdictBoxes].forEach((box) => box.addEventListener("change", filter));
    $("reset").addEventListener("click", () => {
      $("find").value = "";
      [...boxes, ...verdictBoxes].forEach((box) => { box.checked = true; });
      filter();
    });
  }

  // ---- baselines: the ratios of each were computed before ----------------------------------------
  const times = (ratio) => (Math.abs(ratio) < 10 ? ratio.toFixed(3) : ratio.toPrecision(3));
  const showVerdict = (row, verdict, order, why) => {
    const cell = row.querySelector("td.verdict");
    cell.className = `verdict ${verdict ? verdict.css : "none"}`;
    cell.textContent = verdict ? verdict.word : "\u2013";
    cell.title = why ?? "";
    row.dataset.verdict = verdict ? verdict.css : "";
    if (verdict && verdict.name !== "no data") cell.dataset.value = order; else delete cell.dataset.value;
  };
  const showBaseline = (key) => {
    const chosen = comparisonOf(key);
    if (!chosen) return;
    const [ratios, lows, highs, said, why] = ["ratio", "low", "high", "verdict", "title"]
      .map((name) => column(chosen.ratios, name));
    for (const row of rows) {
      const number = Number(row.dataset.cell);
      showVerdict(row, data.verdicts[said[number]], said[number], why[number]);
      const [ratio, low, high] = [ratios[number], lows[number], highs[number]];
      const cell = row.querySelector("td.ratio");
      cell.classList.toggle("none", ratio === null);
      if (ratio === null) {
        cell.textContent = "\u2013";
        cell.title = "no ratio";
        delete cell.dataset.value;
        continue;
      }
      cell.textContent = `${times(ratio)}\u00d7`;
      cell.title = low === null ? "ratio of medians" : `[${times(low)}, ${times(high)}]`;
      cell.dataset.value = ratio;
    }
    if ($("find")) {
      rows.forEach((row) => texts.set(row, row.textContent.toLowerCase()));
      filter();
    }
  };
  $("baseline")?.addEventListener("change", (event) => {
    showBaseline(event.target.value);
    keep("baseline", event.target.selectedIndex ? event.target.value : "");
  });

  // ---- one of several blocks at a time -----------------------------------------------------------
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

  // ---- what stands behind a number: interval, extremes, samples ------------------------------------
  const behind = (cell) => {
    const head = cell.closest("table").tHead?.rows[0].cells[cell.cellIndex];
    const metric = data?.metrics?.[Number(head?.dataset.metric)];
    const row = cell.parentElement.dataset.cell;
    const comparison = cell.classList.contains("verdict")
      ? comparisonOf($("baseline")?.value)
      : data?.comparisons?.[Number(head?.dataset.against)];
    if (comparison && row !== undefined && cell.colSpan === 1) {
      return column(comparison.ratios, "title")[Number(row)] ?? "";
    }
    if (!metric || row === undefined || cell.colSpan > 1) return "";
    const { n, median, low, high, min, max } = fieldsOf(metric, Number(row));
    if (n === null) return "";
    const unit = metric.unit ? ` ${metric.unit}` : "";
    return [
      `${metric.label}: median ${median}${unit}`,
      low === null || low === high ? "" : `95 % interval ${low} to ${high}`,
      min === max ? "" : `from ${min} to ${max}`,
      `n = ${n}`,
    ].filter(Boolean).join("; ");
  };
  document.addEventListener("mouseover", (event) => {
    const cell = event.target.closest?.("tr[data-cell] > td:not([title])");
    if (cell) cell.title = behind(cell);
  });

  // ---- rows and marks of one variant light each other up -------------------------------------------
  let pinned = null;
  const light = (variant) => {
    all(".on").forEach((one) => one.classList.remove("on"));
    root.classList.toggle("lit", variant !== null);
    if (variant === null) return;
    all(`tr[data-variant="${variant}"], .mark[data-variant="${variant}"]`).forEach((one) => one.classList.add("on"));
  };
  const variantOf = (target) => target.closest?.("tr[data-variant], .mark[data-variant]")?.dataset.variant ?? null;
  const nameOf = (variant) => data?.variants?.[Number(variant)]?.name ?? "";
  const markTitle = (mark) => {
    const name = nameOf(mark.dataset.variant);
    if (mark.dataset.cell === undefined) return name;
    const cell = Number(mark.dataset.cell);
    const problem = data?.problems?.[data.cells.problem[cell]]?.name ?? "";
    const metric = data?.metrics?.find((one) => one.name === data.primary);
    const median = metric ? fieldsOf(metric, cell).median : null;
    return `${name}, ${problem}${median === null ? "" : `: ${median} ${metric.unit}`}`;
  };
  for (const mark of all(".mark")) {
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = markTitle(mark);
    mark.append(title);
  }
  document.addEventListener("mouseover", (event) => { if (pinned === null) light(variantOf(event.target)); });
  document.addEventListener("focusin", (event) => { if (pinned === null) light(variantOf(event.target)); });
  document.addEventListener("click", (event) => {
    if (event.target.closest("a, button, summary, input, select, label")) return;
    const variant = variantOf(event.target);
    pinned = variant === pinned ? null : variant;
    light(pinned);
    keep("pin", pinned ?? "");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { pinned = null; light(null); keep("pin", ""); }
  });

  // ---- downloads ---------------------------------------------------------------------------------
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const against = (comparison, index) => {
    const [ratio, low, high, said, why] = ["ratio", "low", "high", "verdict", "title"]
      .map((name) => column(comparison.ratios, name)[index]);
    return { ratio, ratio_low: low, ratio_high: high, verdict: data.verdicts[said]?.name ?? null, reason: why };
  };
  const asCsv = () => {
    const params = [...new Set(data.problems.flatMap((one) => Object.keys(one.params)))];
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
    const { facets: left, comparisons: out, cells: too, verdicts: words, ...rest } = data;
    const metrics = data.metrics.map(({ summary, ...metric }) => metric);
    const cells = Array.from({ length: size }, (_, index) => {
      const cell = cellOf(index);
      return {
        ...cell,
        variant: data.variants[cell.variant].id,
        problem: data.problems[cell.problem].id,
        against: Object.fromEntries(out.map((one) => [one.key, against(one, index)])),
        metrics: Object.fromEntries(measured(index).map((metric) => [metric.name, fieldsOf(metric, index)])),
      };
    });
    return JSON.stringify({ ...rest, metrics, cells }, null, 1) + "\n";
  };
  $("save-csv")?.addEventListener("click", () => save(`${data.experiment}.csv`, "text/csv", asCsv()));
  $("save-json")?.addEventListener("click", () => save(`${data.experiment}.json`, "application/json", asJson()));

  // ---- light and dark, print, links into folded parts ----------------------------------------------
  $("theme")?.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  const reveal = () => {
    if (location.hash.length < 2 || location.hash.startsWith("#?")) return;
    const target = $(decodeURIComponent(location.hash.slice(1)));
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", reveal);

  const restore = () => {
    readState();
    const saved = state;
    const off = new Set((saved.get("off") ?? "").split("_"));
    boxes.forEach((box) => { box.checked = !off.has(box.dataset.group + "." + box.dataset.index); });
    const unwanted = new Set((saved.get("verdicts") ?? "").split("_"));
    verdictBoxes.forEach((box) => { box.checked = !unwanted.has(box.dataset.verdict); });
    if ($("find")) { $("find").value = saved.get("find") ?? ""; filter(); }
    const baseline = $("baseline");
    if (baseline && [...baseline.options].some((one) => one.value === saved.get("baseline"))) {
      baseline.value = saved.get("baseline");
      showBaseline(baseline.value);
    }
    const sort = /^(\d+)\.(ascending|descending)$/.exec(saved.get("sort") ?? "");
    if (main && sort) sortBy(main, Number(sort[1]), sort[2]);
    for (const group of all(".switch")) {
      const select = group.querySelector("select");
      const index = Number(saved.get(group.dataset.switch) ?? 0);
      if (select && index < select.options.length) { select.selectedIndex = index; choose(group, index); }
    }
    const pin = saved.get("pin");
    if (pin && /^\d+$/.test(pin)) { pinned = pin; light(pin); }
  };
  restore();
  restoring = false;
  reveal();
})();
