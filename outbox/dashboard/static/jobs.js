// Loads a running job's part again while somebody looks at the page. It rests once the job does.
"use strict";

setInterval(() => {
  const runs = document.querySelector("#now [data-state=running]");
  if (runs && !document.hidden) document.body.dispatchEvent(new Event("refresh"));
}, 2_000);
