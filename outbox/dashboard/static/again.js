// What the pages share that load a part of themselves again: they say so when they cannot.
"use strict";

const outdated = new Set();

// The hint stands outside of the parts: one that is loaded does not take back what another says.
function stale(part, is) {
  if (is) outdated.add(part.id);
  else outdated.delete(part.id);
  document.getElementById("stale").hidden = outdated.size === 0;
}

// An error's page or a login's, to which the app leads, is no part of this page.
document.addEventListener("htmx:before:response", (event) => {
  const answer = event.detail.ctx.response.raw;
  if (answer.ok && !answer.redirected) return;
  event.preventDefault();
  stale(event.target, true);
});
document.addEventListener("htmx:error", (event) => stale(event.target, true));
document.addEventListener("htmx:after:swap", (event) => {
  stale(event.target, false);
  localise(event.target);
});
