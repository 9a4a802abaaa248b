// Draws each chart from its table, in the page's colours.
"use strict";

const charts = new Map();  // by the element that a chart stands in
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];  // so that colour is not all that tells
const HEIGHT = 190;
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });
const TWO_DAYS = 2 * 86_400;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 7200) return `${+(value / 3600).toFixed(1)} h`;
  if (value >= 120) return `${+(value / 60).toFixed(1)} min`;
  return value >= 1 || value === 0 ? `${+value.toFixed(1)} s` : `${Math.round(value * 1000)} ms`;
}

function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

function dates(plot, marks) {
  const format = plot.scales.x.max - plot.scales.x.min > TWO_DAYS ? DAY : TIME;
  return marks.map((mark) => format.format(new Date(mark * 1000)));
}

function readTable(table) {
  const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent);
  const rows = [...table.tBodies[0].rows];
  const at = rows.map((row) => Number(row.dataset.at));
  const values = names.map((_, place) =>
    rows.map((row) => {
      const text = row.cells[place + 1].dataset.value;
      return text === "" ? null : Number(text);
    }));
  return { names, data: [at, ...values] };
}

function options(place, names) {
  const print = place.dataset.unit ? seconds : count;
  const axis = { stroke: colour("--faded"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width: place.clientWidth,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    legend: { live: true },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [{ ...axis, space: 70, size: 30, values: dates }, { ...axis, size: 62, values: (_, marks) => marks.map(print) }],
    series: [
      { label: "from", value: (_, at) => (at ? clock.format(new Date(at * 1000)) : "–") },
      ...names.map((label, number) => ({
        label,
        stroke: colour(COLOURS[number]),
        dash: DASHES[number],
        width: 2,
        fill: names.length === 1 ? colour("--line-fill") : undefined,
        points: { show: (_, __, from, to) => to - from < 3 },
        value: (_, value) => print(value),
      })),
    ],
  };
}

function drawCharts(anew = false) {
  for (const [place, chart] of charts) {
    if (anew || !place.isConnected) {
      chart.destroy();
      charts.delete(place);
    }
  }
  for (const place of document.querySelectorAll(".chart")) {
    const { names, data } = readTable(document.getElementById(place.dataset.table));
    if (charts.has(place)) charts.get(place).setData(data);
    else charts.set(place, new uPlot(options(place, names), data, place));
  }
}

new ResizeObserver(() => {
  for (const [place, chart] of charts) {
    if (place.clientWidth !== chart.width) chart.setSize({ width: place.clientWidth, height: HEIGHT });
  }
}).observe(document.getElementById("figures"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts(true));
