// Hovering over a law of the front shows it beside the chart; a click or Enter keeps it there.
(function () {
  "use strict";
  const chart = document.getElementById("pareto");
  if (!chart) return;
  const points = Array.from(chart.querySelectorAll(".point"));
  const cards = Array.from(document.querySelectorAll("#panel > div"));
  let kept = cards.findIndex((c) => !c.hidden);

  function show(i) {
    points.forEach((p, k) => p.classList.toggle("shown", k === i));
    cards.forEach((c, k) => { c.hidden = k !== i; });
  }
  function keep(i) {
    kept = i;
    points.forEach((p, k) => p.setAttribute("aria-pressed", String(k === i)));
    show(i);
  }
  points.forEach((point, i) => {
    point.addEventListener("mouseenter", () => show(i));
    point.addEventListener("mouseleave", () => show(kept));
    point.addEventListener("focus", () => show(i));
    point.addEventListener("blur", () => show(kept));
    point.addEventListener("click", () => keep(i));
    point.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") { keep(i); event.preventDefault(); }
      else if (step && points[i + step]) { points[i + step].focus(); event.preventDefault(); }
    });
  });
  const table = document.getElementById("all-laws");
  window.addEventListener("beforeprint", () => { if (table) table.open = true; });
  keep(kept);
})();
