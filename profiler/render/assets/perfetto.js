// Recorded timelines as Chrome's JSON trace, which ui.perfetto.dev and chrome://tracing read: to save, or
// to hand to a window of Perfetto. Nothing is loaded and nothing leaves the page until that is asked for.
(() => {
  "use strict";
  const PERFETTO = "https://ui.perfetto.dev";
  const ASK_MS = 100;
  // Columns of bars (times in ns; `rows`: process and thread) as events.
  const traceOf = ({ rows, names, row, name, start, ns }) => {
    const processes = [...new Set(rows.map(([process]) => process))];
    const meta = (kind, pid, tid, text) => ({ ph: "M", name: kind, pid, tid, args: { name: text } });
    const traceEvents = [
      ...processes.map((process, pid) => meta("process_name", pid, 0, process)),
      ...rows.map(([process, thread], tid) => meta("thread_name", processes.indexOf(process), tid, thread)),
    ];
    for (let bar = 0; bar < row.length; bar += 1) {
      const [process] = rows[row[bar]];
      traceEvents.push({
        ph: "X", name: names[name[bar]], pid: processes.indexOf(process), tid: row[bar], ts: start[bar] / 1000, dur: ns[bar] / 1000,
      });
    }
    return JSON.stringify({ traceEvents, displayTimeUnit: "ns" });
  };
  const openPerfetto = (text, title) => {
    const opened = window.open(PERFETTO);
    if (!opened) return;
    const asking = setInterval(() => opened.postMessage("PING", PERFETTO), ASK_MS);
    const answered = ({ origin, data }) => {
      if (origin !== PERFETTO || data !== "PONG") return;
      clearInterval(asking);
      removeEventListener("message", answered);
      opened.postMessage({ perfetto: { buffer: new TextEncoder().encode(text).buffer, title } }, PERFETTO);
    };
    addEventListener("message", answered);
  };
  const saveTrace = (text, title) => {
    const name = `${title.replace(/[^\w.-]+/g, "-").slice(0, 80)}.trace.json`;
    save(name, new Blob([text], { type: "application/json" }));
  };
  // `bars` gives the columns of a timeline, or a promise of them.
  const offer = (holder, title, bars) => {
    for (const [words, act] of [["Open in Perfetto", openPerfetto], ["Save trace", saveTrace]]) {
      const button = make("button", { type: "button" }, words);
      button.addEventListener("click", async () => act(traceOf(await bars()), title));
      holder.append(button);
    }
  };
  document.addEventListener("recorded", ({ target, detail }) => offer(target, detail.title, detail.bars));
  for (const packed of all("script[data-trace]")) {
    const holder = make("div", { class: "tools" });
    packed.after(holder);
    offer(holder, packed.dataset.trace, () => unpacked(packed));
  }
})();
