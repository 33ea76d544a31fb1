// The filter of an index: rows stay whose text has every word.
(() => {
  "use strict";
  const find = $("find-listed");
  const rows = all(".listed");
  find?.addEventListener("input", () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    const shown = rows.filter((row) => !row.hidden).length;
    find.closest(".tools").querySelector("output").textContent = words.length ? `${shown} of ${rows.length}` : "";
  });
})();
