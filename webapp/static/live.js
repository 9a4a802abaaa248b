// Keeps the numbers of one page moving. Without it the page shows them as of its loading.
"use strict";

const PAUSE = 400; // milliseconds between two questions

function show(field, value) {
  if (field.tagName === "PROGRESS") {
    field.value = value;
    return;
  }
  field.textContent = typeof value === "number" ? value.toLocaleString("en") : value;
  field.dataset.value = value;
}

async function follow(section) {
  for (;;) {
    try {
      const answer = await fetch(section.dataset.live);
      const numbers = answer.ok ? await answer.json() : {};
      for (const field of section.querySelectorAll("[data-field]")) {
        const value = numbers[field.dataset.field];
        if (value !== undefined && value !== null) show(field, value);
      }
      if (numbers.done) {
        section.dataset.done = "";
        return;
      }
    } catch {
      // The server is away for a moment: ask again.
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

document.querySelectorAll("[data-live]").forEach(follow);
