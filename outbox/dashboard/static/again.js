// What the pages share that load a part of themselves again: they say so when they cannot.
"use strict";

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
document.addEventListener("htmx:after:swap", (event) => localise(event.target));
