// What scrolls can be reached by keyboard: where nothing inside takes the focus, the box itself does.
(() => {
  "use strict";
  const FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']";
  const isShown = (element) => element.getClientRects().length > 0;
  const check = (box) => {
    const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
    const reached = scrolls && [...box.querySelectorAll(FOCUSABLE)].some(isShown);
    if (scrolls && !reached) box.tabIndex = 0; else box.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => check(target)));
  all(".scroll, .chart, .grid-map").forEach((box) => observer.observe(box));
  document.addEventListener("made", ({ target }) => observer.observe(target.closest(".scroll")));
})();
