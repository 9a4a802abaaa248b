// Loads a running job's part again while somebody looks at the page. It rests once the job does.
"use strict";

setInterval(() => {
  const runs = document.querySelector("#now [data-state=running]");
  if (runs && !document.hidden) document.body.dispatchEvent(new Event("refresh"));
}, 2_000);

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
  stale(false);
  localise(event.target);
});
