// Every line of two explained kernels beside each other. The data are unpacked when they come near the
// window, and as many rows are drawn as a reader asks for: a kernel may have thousands.
const MORE_ROWS = 300;
// Positions in the first and in the second of each row, in the order of both.
const alignedRows = (first, second, runs) => {
  const found = [];
  const until = (own, other) => {
    while (right < other) found.push([null, right++]);
    while (left < own) found.push([left++, null]);
  };
  let [left, right] = [0, 0];
  for (const [other, own, length] of second ? runs : [[0, 0, first.sass.length]]) {
    until(own, other);
    for (let step = 0; step < length; step += 1) found.push([left++, second ? right++ : null]);
  }
  until(first.sass.length, second?.sass.length ?? 0);
  return found;
};
const countsOf = (side, at) => ({
  samples: side.samples[at], executed: side.executed[at], wait: side.wait[at], most: side.samples[at] ?? 0,
});
const signOf = (sides, values) => (!sides[1] || (values[0] && values[1]) ? "" : values[0] ? "+" : "\u2212");
const instructionsOf = (sides, runs) => alignedRows(...sides, runs).map((positions, order) => {
  const [number, at] = positions[0] === null ? [1, positions[1]] : [0, positions[0]];
  const values = sides.map((side, which) => (side && positions[which] !== null ? countsOf(side, positions[which]) : null));
  const side = sides[number];
  return { sign: signOf(sides, values), place: side.place[at], text: side.sass[at], values, order };
});
const addUp = (a, b) => (a === null ? b : b === null ? a : a + b);
const added = (line, other) => (line && {
  samples: addUp(line.samples, other.samples), executed: addUp(line.executed, other.executed),
  wait: other.most > line.most ? other.wait : line.wait, most: Math.max(line.most, other.most),
}) ?? other;
const sourceLinesOf = (sides) => {
  const lines = new Map();
  sides.forEach((side, number) => side?.place.forEach((place, at) => {
    if (!place) return;
    const text = side.source[at];
    const key = `${place} ${text}`;
    if (!lines.has(key)) lines.set(key, { place, text, values: sides.map(() => null) });
    const { values } = lines.get(key);
    values[number] = added(values[number], countsOf(side, at));
  }));
  const found = [...lines.values()].sort((a, b) => collator.compare(a.place, b.place));
  return found.map((line, order) => ({ ...line, sign: signOf(sides, line.values), order }));
};
const showListing = ({ listings, pairs }, block) => {
  const [of, by] = all("select", block);
  const [search, output, box] = ["input", "output", ".scroll"].map((part) => block.querySelector(part));
  of.append(...pairs.map(([title]) => make("option", {}, title)));
  let [lines, sort, shown, sides] = [[], null, MORE_ROWS, []];
  const totals = () => sides.map((side) => side?.samples.reduce((sum, count) => sum + (count ?? 0), 0) ?? 0);
  const heads = () => [
    ["", (row) => row.sign], ["line", (row) => row.place], [by.selectedIndex ? "source" : "instruction", (row) => row.text, "code"],
    ...sides.flatMap((side, number) => (side ? [
      ["not issued", (row) => row.values[number]?.samples ?? null, "num", (value) => show(100 * value / (totals()[number] || 1), "%")],
      ["executed", (row) => row.values[number]?.executed ?? null, "num", count],
      ["waits", (row) => row.values[number]?.wait ?? ""],
    ] : [])),
  ];
  const draw = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const columns = heads();
    const fits = (row) => words.every((word) => columns.some(([, value]) => String(value(row) ?? "").toLowerCase().includes(word)));
    const rows = lines.filter(fits);
    if (sort) {
      const value = columns[sort.place][1];
      rows.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sort.sign * compareValues(x, y) || a.order - b.order;
      });
    }
    const whole = totals();
    const cellOfRow = (row) => ([, value, kind, written], place) => {
      const held = value(row);
      if (kind !== "num") return make(place === 2 ? "th" : "td", { class: kind ?? (place > 2 ? "prose" : "words"), scope: place === 2 && "row" }, held);
      const part = written === count || held === null ? 0 : Math.ceil(20 * held / (whole[(place - 3) / 3] || 1));
      return make("td", { class: part > 0 ? `w${Math.min(part, 20)}` : null }, held === null ? "\u2013" : (written ?? count)(held));
    };
    const title = (side) => make("th", { scope: "colgroup", colspan: 3 }, side.name);
    box.replaceChildren(make("table", { class: "plain" },
      make("caption", { class: "visually-hidden" }, pairs[of.selectedIndex][0]),
      make("thead", {}, make("tr", {}, make("td", { colspan: 3 }), ...sides.filter(Boolean).map(title)),
        make("tr", {}, ...columns.map(([name, , kind], place) => {
          const head = headOf(name || "side", kind === "num");
          if (sort?.place === place) head.setAttribute("aria-sort", sort.sign > 0 ? "ascending" : "descending");
          head.addEventListener("click", () => {
            sort = { place, sign: sort?.place === place ? -sort.sign : kind === "num" ? -1 : 1 };
            draw();
          });
          return head;
        }))),
      make("tbody", {}, ...rows.slice(0, shown).map((row) => make("tr", {}, ...columns.map(cellOfRow(row)))))));
    if (rows.length > shown) {
      const more = make("button", { type: "button" }, `${rows.length - shown} more`);
      more.addEventListener("click", () => { shown += 10 * MORE_ROWS; draw(); });
      box.append(more);
    }
    output.textContent = `${rows.length} of ${lines.length} rows`;
  };
  const choosePair = () => {
    const [, first, second, runs] = pairs[of.selectedIndex];
    sides = [listings[first], second === null ? null : listings[second]];
    const hasLines = sides.some((side) => side?.place.some(Boolean));
    by.options[1].disabled = !hasLines;
    if (!hasLines) by.selectedIndex = 0;
    [sort, shown] = [null, MORE_ROWS];
    lines = by.selectedIndex === 1 ? sourceLinesOf(sides) : instructionsOf(sides, runs);
    draw();
  };
  for (const select of [of, by]) select.addEventListener("change", choosePair);
  search.addEventListener("input", () => { shown = MORE_ROWS; draw(); });
  choosePair();
};
const listingBlock = $("listing");
if (listingBlock) {
  const near = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    showListing(await unpacked($("listings")), listingBlock);
  }, { rootMargin: "50%" });
  near.observe(listingBlock);
}
