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

function stale(is) {
  document.getElementById("stale").hidden = !is;
}

// An error's page or a login's, to which the app leads, is no part of this page.
document.addEventListener("htmx:before:response", (event) => {
  const answer = event.detail.ctx.response.raw;
  if (answer.ok && !answer.redirected) return;
  event.preventDefault();
  stale(true);
});
document.addEventListener("htmx:error", () => stale(true));
document.addEventListener("htmx:after:swap", (event) => {
  localise(event.target);
  drawCharts();
});

drawCharts();
