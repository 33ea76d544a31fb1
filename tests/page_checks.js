// What is wrong with an open page: each check returns a list of sentences, empty where all is well.
// `keepOneOfEveryLook` cuts a page down, so that axe-core need not read 60,000 elements, and
// `markNewColours` marks the texts whose colours it has not judged yet.
(() => {
  "use strict";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const words = (element) => element.textContent.trim().replace(/\s+/g, " ").slice(0, 60);
  const place = (element) => {
    const named = element.closest("[id]");
    return `${named ? `#${named.id} ` : ""}${element.tagName.toLowerCase()} “${words(element)}”`;
  };
  const isShown = (element) => element.getClientRects().length > 0;
  const SLACK = 1; // px: a border, or half of a pixel on either side

  const settled = () => new Promise((done) => { // the page's own observers have answered
    requestAnimationFrame(() => requestAnimationFrame(() => done()));
  });
  const openAll = () => {
    for (const block of all("details")) block.open = true;
    return settled();
  };

  // ---- figures -----------------------------------------------------------------------------------
  const clippedTexts = () => all("svg").filter(isShown).flatMap((svg) => {
    const box = svg.getBoundingClientRect();
    return all("text", svg).filter((text) => {
      const { left, right, top, bottom, width } = text.getBoundingClientRect();
      return width > 0 && (left < box.left - SLACK || right > box.right + SLACK
        || top < box.top - SLACK || bottom > box.bottom + SLACK);
    }).map(place);
  });

  const equalLabels = () => all("svg .labels").flatMap((group) => {
    const labels = all("text", group).map(words).filter(Boolean);
    const twice = new Set(labels.filter((label, index) => labels.indexOf(label) !== index));
    return [...twice].map((label) => `${place(group.closest("figure") ?? group)}: ${label}`);
  });

  // ---- tables ------------------------------------------------------------------------------------
  const heads = (table) => [...(table.tHead?.rows[table.tHead.rows.length - 1]?.cells ?? [])];
  const KEYS = /^(variant|duration( \([nµm]?s\))?|ratio\b.*|verdict|reason)$/i;

  const rightEdge = (element) => {
    let edge = document.documentElement.clientWidth;
    for (let box = element.parentElement; box; box = box.parentElement) {
      if (getComputedStyle(box).overflowX !== "visible") {
        edge = Math.min(edge, box.getBoundingClientRect().left + box.clientLeft + box.clientWidth);
      }
    }
    return edge;
  };
  const clippedKeys = () => all("table").filter(isShown).flatMap((table) => {
    const edge = rightEdge(table);
    return heads(table)
      .filter((head) => isShown(head) && KEYS.test(words(head)))
      .filter((head) => head.getBoundingClientRect().right > edge + SLACK)
      .map((head) => `${place(table.caption ?? table)}: ${words(head)}`);
  });

  const slicedBlocks = () => all("main :is(.block, .choice, .pair, .chart)")
    .filter((block) => isShown(block) && getComputedStyle(block).display === "inline-block")
    .filter((block) => block.getBoundingClientRect().height > window.innerHeight)
    .map((block) => place(block));

  const ORDERS = [ // what a caption says, the column that it means, and which way
    [/^Idle gaps of the GPU, most time together first$/, "together", -1],
    [/^Lowest \d+ ratios of times$/, "ratio of times", 1],
    [/^Highest \d+ ratios of times$/, "ratio of times", -1],
    // Ranks go by slowdowns, which pair blocks: durations of near ties may stand in another order.
    [/^All cells with their metrics, by problem, best first$/, "rank", 1],
  ];
  const NO_ORDER = /against the first|from the lowest to the highest|in the order of the experiment/;
  const numberOf = (cell) => (cell.dataset.value === undefined ? parseFloat(cell.textContent) : Number(cell.dataset.value));
  const isOrdered = (table, column, sign) => { // each problem of its own, where rows say which begins one
    let last = NaN;
    return [...table.tBodies[0].rows].every((row) => {
      if (row.classList.contains("begins")) last = NaN;
      const value = numberOf(row.cells[column]);
      const fits = !Number.isFinite(value) || !(sign * (value - last) < 0);
      if (Number.isFinite(value)) last = value;
      return fits;
    });
  };
  const misordered = (table) => {
    const caption = table.caption ? words(table.caption) : "";
    const rule = ORDERS.find(([pattern]) => pattern.test(caption));
    if (!rule) {
      // A variant may be called `two-in-order`.
      const claims = /(?<![\w-])(first|order|highest|lowest|most|longest)(?![\w-])/i.test(caption);
      return claims && !NO_ORDER.test(caption) ? [`nobody knows how to check the order of: ${caption}`] : [];
    }
    const column = heads(table).findIndex((head) => words(head).toLowerCase().startsWith(rule[1]));
    return column >= 0 && isOrdered(table, column, rule[2]) ? [] : [place(table.caption)];
  };
  const sortedHeads = (table) => heads(table).flatMap((head, column) => {
    const direction = { ascending: 1, descending: -1 }[head.getAttribute("aria-sort")];
    return direction === undefined || isOrdered(table, column, direction) ? [] : [place(head)];
  });
  const misorderedTables = () => all("table").flatMap((table) => [...misordered(table), ...sortedHeads(table)]);

  // ---- the window --------------------------------------------------------------------------------
  const sidewaysScroll = () => {
    const width = document.documentElement.clientWidth;
    if (document.scrollingElement.scrollWidth <= width) return [];
    const wide = all("body *").filter((element) => isShown(element)
      && element.getBoundingClientRect().right > width + SLACK && rightEdge(element) >= width);
    return [`${document.scrollingElement.scrollWidth} px`, ...wide.slice(0, 5).map(place)];
  };

  const cutFigures = () => all("figure.chart").filter(isShown)
    .filter((figure) => figure.scrollWidth > figure.clientWidth + SLACK).map(place);

  const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]:not([tabindex='-1'])";
  const scrolls = (element) => {
    const style = getComputedStyle(element);
    return (/auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth + SLACK)
      || (/auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight + SLACK);
  };
  const unreachableScrollers = () => all("div, figure, section, nav, pre, ul").filter(isShown)
    .filter((element) => scrolls(element) && element.tabIndex < 0 && !all(FOCUSABLE, element).some(isShown))
    .map(place);

  const isLandscape = () => [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .some((rule) => rule instanceof CSSPageRule && rule.style.getPropertyValue("size").includes("landscape"));

  const equalIds = () => {
    const ids = all("[id]").map((element) => element.id);
    return [...new Set(ids.filter((id, index) => ids.indexOf(id) !== index))];
  };

  const belowFold = () => {
    const answer = document.getElementById("answer");
    if (!answer) return []; // an index
    const figure = answer.querySelector("figure");
    if (!figure) return ["the answer has no figure"];
    const { top, bottom } = figure.getBoundingClientRect();
    return bottom <= innerHeight ? [] : [`${place(figure)} from ${Math.round(top)} to ${Math.round(bottom)} px`];
  };

  // ---- one of every look -------------------------------------------------------------------------
  // An element that differs from another only in its words and numbers, under parents that differ
  // only so, gets the same judgement of axe-core: one of each is left, and none of those in `known`,
  // which other pages had. Headings and landmarks stay, and what others refer to.
  const WHOLE = "tr, dl, label, summary, p, button, select, figcaption, legend, h1, h2, h3, h4, h5, h6";
  const STAYS = "h1, h2, h3, h4, h5, h6, main, header, nav, footer, aside, script";
  const REFERENCES = ["aria-labelledby", "aria-describedby", "aria-controls", "aria-owns", "for"];
  const BY_VALUE = /^(class|style|role|type|scope|open|hidden|tabindex|aria-(?!label))/;

  const SHAPES = new Set(["path", "use", "line", "rect", "circle", "polyline", "defs"]); // without words or focus
  const isShape = (element) => SHAPES.has(element.tagName) && !element.hasAttribute("tabindex") && !element.hasAttribute("role");
  const hash = (text) => { // FNV-1a with 53 bits: equal looks have equal numbers on every page
    let [low, high] = [0x811c9dc5, 0x41c6ce57];
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      low = Math.imul(low ^ code, 0x01000193);
      high = Math.imul(high ^ code, 0x5f356495);
    }
    return (high >>> 11) * 0x100000000 + (low >>> 0);
  };
  const hashes = new Map();
  const hashed = (text) => {
    if (!hashes.has(text)) hashes.set(text, hash(text));
    return hashes.get(text);
  };
  const lookOf = (element, above) => {
    const attributes = [...element.attributes]
      .map(({ name, value }) => (BY_VALUE.test(name) ? `${name}=${value}` : name)).join("|");
    let says = false;
    for (let node = element.firstChild; node && !says; node = node.nextSibling) {
      says = node.nodeType === Node.TEXT_NODE && node.data.trim() !== "";
    }
    return hashed(`${above} ${element.tagName} ${attributes} ${says}`);
  };
  const referredIds = () => new Set(REFERENCES.flatMap((name) => (
    all(`[${name}]`).flatMap((element) => element.getAttribute(name).split(/\s+/).filter(Boolean)))));

  const keepOneOfEveryLook = (known) => {
    const seen = new Set(JSON.parse(known));
    const referred = referredIds();
    const kept = new Set([document.body]);
    const fresh = new Set(); // cells of tables that hold a new look
    const keep = (element) => {
      for (let one = element; one && !kept.has(one); one = one.parentElement) kept.add(one);
    };
    const mark = (element, above, unit) => {
      const own = lookOf(element, above);
      if (!seen.has(own) || referred.has(element.id) || element.matches(STAYS)) {
        keep(unit ?? element);
        fresh.add(element.closest("td"));
      }
      seen.add(own);
      const inside = unit ?? (element.matches(WHOLE) ? element : null);
      for (const child of element.children) if (!isShape(child)) mark(child, own, inside);
    };
    const prune = (element) => {
      if (element.matches("tr")) {
        // A row keeps its columns, and loses what its other cells say: one is left of those beside each other.
        for (const cell of all("td", element)) {
          if (fresh.has(cell)) continue;
          const before = cell.previousElementSibling;
          cell.replaceChildren();
          if (!before?.matches("td") || fresh.has(before)) continue;
          cell.colSpan += before.colSpan;
          before.remove();
        }
        return;
      }
      if (element.matches(WHOLE)) return;
      for (const child of [...element.children]) if (kept.has(child)) prune(child); else child.remove();
    };
    document.head.append(...all("svg style")); // it holds for the whole page, also where its figure goes
    mark(document.body, 0, null);
    prune(document.body);
    return JSON.stringify([...seen]); // thousands of numbers: as they are, Playwright takes a second for them
  };

  // ---- one of all colours ------------------------------------------------------------------------
  // What axe-core says of the contrast of a text follows from its colours, from whether it is large,
  // from what is painted behind it up to what is opaque, and for a link from the text around it.
  // Several of each are judged: one may be scrolled out of its box.
  const MOST_OF_A_COLOUR = 3;
  const CONTROLS = "input, select, textarea";
  const NEW_COLOURS = "data-new-colours";
  const isOpaque = (color) => color.startsWith("rgb(");
  const saysSomething = (element) => [...element.childNodes]
    .some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");

  const backgroundsOf = (element) => {
    const painted = [];
    let opaque = false;
    for (let one = element; one; one = one.parentElement) {
      const { backgroundColor, backgroundImage, filter, mixBlendMode, opacity, position } = getComputedStyle(one);
      painted.push(`${filter} ${mixBlendMode} ${opacity}`);
      if (!opaque) painted.push(`${backgroundColor} ${backgroundImage} ${position}`);
      opaque ||= isOpaque(backgroundColor);
    }
    return new Set(painted);
  };
  const colourOf = (element) => {
    const { clip, clipPath, color, fill, fontSize, fontWeight, textShadow } = getComputedStyle(element);
    const isLarge = parseFloat(fontSize) >= (fontWeight >= 700 ? 18.66 : 24); // px, as WCAG has it in points
    const link = element.closest("a");
    const linked = link && [getComputedStyle(link).textDecorationLine, getComputedStyle(link.parentElement).color];
    const isDisabled = element.closest(":disabled, [aria-disabled], label") !== null;
    return hashed([
      clip, clipPath, color, fill, isLarge, textShadow, linked, isDisabled, ...backgroundsOf(element),
    ].join("|"));
  };

  const markNewColours = (known) => {
    const seen = new Set(JSON.parse(known));
    const counts = new Map();
    for (const element of all(`[${NEW_COLOURS}]`)) element.removeAttribute(NEW_COLOURS);
    for (const element of all("body, body *")) {
      if (!isShown(element) || !(saysSomething(element) || element.matches(CONTROLS))) continue;
      const colour = colourOf(element);
      const count = counts.get(colour) ?? 0;
      counts.set(colour, count + 1);
      if (!seen.has(colour) && count < MOST_OF_A_COLOUR) element.setAttribute(NEW_COLOURS, "");
    }
    return JSON.stringify([...counts.keys()]);
  };

  window.pageChecks = {
    settled, openAll, clippedTexts, equalLabels, clippedKeys, misorderedTables, sidewaysScroll, cutFigures,
    slicedBlocks, unreachableScrollers,
    equalIds, isLandscape, belowFold, keepOneOfEveryLook, markNewColours,
  };
})();
