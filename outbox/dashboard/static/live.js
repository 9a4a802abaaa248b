// Loads the overview's parts again while somebody looks at the page, and draws the charts anew.
"use strict";

const EVERY = { refresh: 5_000, "refresh-figures": 15_000 };

for (const [name, interval] of Object.entries(EVERY)) {
  setInterval(() => {
    if (!document.hidden) document.body.dispatchEvent(new Event(name));
  }, interval);
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const name of Object.keys(EVERY)) document.body.dispatchEvent(new Event(name));
});

document.addEventListener("htmx:after:swap", () => drawCharts());

drawCharts();
