// Full names of variants: shown on hover, and copied by the button beside a short one, whose
// icon the style sheet draws while it is empty.
(() => {
  "use strict";
  for (const name of all(".variant[data-full]")) {
    name.after(make("button", { type: "button", class: "copy", tabindex: "-1", "aria-label": "Copy the full name" }));
  }
  const fullOf = (target) => target.parentElement.querySelector(".variant")?.dataset.full ?? "";
  const copied = (text) => { // pages on disk may not use the clipboard otherwise
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copied(text);
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    button.textContent = (await copy(fullOf(button))) ? "\u2713" : "\u2715";
    setTimeout(() => { button.textContent = ""; }, 1500);
  });
  document.addEventListener("mouseover", (event) => {
    const name = event.target.closest?.(".variant");
    if (name?.dataset.full && !name.title) name.title = name.dataset.full;
  });
})();
