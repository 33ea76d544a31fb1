// Every figure as SVG and PNG, every table as CSV: made from what the page shows.
(() => {
  "use strict";
  const fileName = (words, kind) => {
    const page = document.title.replace(/[^\w.-]+/g, "-").slice(0, 60);
    return `${page}-${words.replace(/[^\w.-]+/g, "-").slice(0, 60)}.${kind}`.replace(/-+/g, "-");
  };

  // ---- figures -----------------------------------------------------------------------------------
  const SCALE = 2; // pixels of a PNG by those of the page
  // Variables of the style sheet as plain colours: a file has no style sheet of the page.
  const plain = (text, within) => {
    const probe = make("span");
    within.append(probe);
    const colours = new Map();
    const result = text.replace(/var\((--[\w-]+)\)/g, (whole, name) => {
      if (!colours.has(name)) {
        probe.style.color = whole;
        colours.set(name, getComputedStyle(probe).color);
      }
      return colours.get(name);
    });
    probe.remove();
    return result;
  };
  const asSvg = (figure) => {
    const shown = figure.querySelector("svg");
    const copy = shown.cloneNode(true);
    const [, , width, height] = shown.getAttribute("viewBox").split(" ").map(Number);
    const pixels = 4 / 3; // of a point
    const size = { width: Math.round(width * pixels), height: Math.round(height * pixels) };
    for (const [key, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", ...size })) copy.setAttribute(key, value);
    const style = getComputedStyle(figure);
    copy.setAttribute("style", `font-family: ${style.fontFamily.replaceAll('"', "'")}`);
    all("title", copy).forEach((title) => title.remove());
    copy.querySelector("style")?.after(make("rect", { width: "100%", height: "100%", fill: "var(--page)" }));
    return { text: plain(new XMLSerializer().serializeToString(copy), figure), ...size };
  };
  const asPng = async ({ text, width, height }) => {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = make("canvas", { width: width * SCALE, height: height * SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => { canvas.toBlob(done, "image/png"); });
  };
  const button = (text, title, act) => {
    const one = make("button", { type: "button", title, "aria-label": title }, text);
    one.addEventListener("click", act);
    return one;
  };
  for (const figure of all("figure.chart")) {
    if (!figure.querySelector("svg")) continue;
    const title = figure.querySelector("figcaption b")?.textContent ?? figure.id;
    const tools = make("span", { class: "save" });
    const larger = button("\u2922", `Larger: ${title}`, () => larger.setAttribute("aria-pressed", figure.classList.toggle("large")));
    larger.className = "larger";
    larger.setAttribute("aria-pressed", "false");
    tools.append(
      button("SVG", `Save as SVG: ${title}`, () => {
        save(fileName(title, "svg"), new Blob([asSvg(figure).text], { type: "image/svg+xml" }));
      }),
      button("PNG", `Save as PNG: ${title}`, async () => save(fileName(title, "png"), await asPng(asSvg(figure)))),
      larger,
    );
    // A still figure is hidden behind its live picture: its buttons are not.
    const still = figure.closest(".still");
    if (still) still.prepend(tools); else figure.querySelector("figcaption").append(tools);
  }

  // ---- tables ------------------------------------------------------------------------------------
  const words = (cell) => (cell.innerText || cell.textContent).replace(/\s+/g, " ").trim();
  const spread = (cells, value) => cells.flatMap((cell) => [value(cell), ...Array(cell.colSpan - 1).fill("")]);
  // Numbers as they were measured, and the rows that a filter leaves.
  const asCsv = (table) => {
    const raw = (cell) => cell.dataset.value ?? words(cell);
    const heads = [...(table.tHead?.rows ?? [])].map((row) => spread([...row.cells], words));
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => !row.hidden);
    const lines = [...heads, ...rows.map((row) => spread([...row.cells], raw))];
    return `${lines.map((line) => line.map(quoted).join(",")).join("\n")}\n`;
  };
  const offer = (table) => {
    const title = table.caption?.textContent.trim() || "table";
    const tools = make("div", { class: "save" });
    tools.append(button("CSV", `Save as CSV: ${title}`, () => {
      save(fileName(title, "csv"), new Blob([asCsv(table)], { type: "text/csv" }));
    }));
    (table.closest(".scroll") ?? table).after(tools);
  };
  all("main table").forEach(offer);
  document.addEventListener("made", ({ target }) => offer(target)); // tables that the page's script makes
})();
