// Shows each time in the reader's own zone. Without it they are in UTC. Sends a form that goes on.
"use strict";

const clock = new Intl.DateTimeFormat("en-GB", {
  day: "2-digit", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});

function localise(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    time.textContent = clock.format(new Date(time.dateTime));
  }
}

localise(document);
for (const zone of document.querySelectorAll("[data-zone]")) {
  zone.textContent = clock.resolvedOptions().timeZone;
}

// A long act is done in parts. Without this a person presses the button for each.
document.querySelector("form[data-goes-on]")?.requestSubmit();
