// Keeps one page moving. Without it the page shows everything as of its loading.
"use strict";

const PAUSE = 400; // milliseconds between two questions
const STILL = 2000; // milliseconds without a change, after which a page says so

function show(field, value) {
  if (field.tagName === "PROGRESS") {
    field.value = value;
    return;
  }
  const text = typeof value === "number" ? value.toLocaleString("en") : value;
  if (field.textContent !== text) field.textContent = text; // else a selection would be lost
  field.dataset.value = value;
}

async function follow(section) {
  const part = section.querySelector("[data-html]");
  let html = null;
  let finished = null;
  let moved = Date.now();
  for (;;) {
    try {
      const answer = await fetch(section.dataset.live);
      const numbers = answer.ok ? await answer.json() : {};
      for (const field of section.querySelectorAll("[data-field]")) {
        const value = numbers[field.dataset.field];
        if (value !== undefined && value !== null) show(field, value);
      }
      if (part && numbers.html !== undefined && numbers.html !== html) {
        html = numbers.html;
        part.innerHTML = html; // the server has escaped it
      }
      if (numbers.finished !== finished) {
        finished = numbers.finished;
        moved = Date.now();
      }
      section.toggleAttribute("data-still", finished !== undefined && Date.now() - moved > STILL);
      if (numbers.done) {
        section.removeAttribute("data-still");
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
