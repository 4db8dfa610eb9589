// What belongs to one law is marked with its number, and hidden unless that law is shown.
(function () {
  "use strict";
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");

  const card = byId("card");
  const points = all(".point");
  const back = byId("back");
  const first = card.querySelector("[data-law]:not([hidden])").dataset.law;
  let kept = first;

  function show(law, within) {
    all("[data-law]", within).forEach((e) => e.toggleAttribute("hidden", e.dataset.law !== law));
    points.forEach((p) => p.classList.toggle("shown", p.dataset.point === law));
  }
  function keep(law) {
    kept = law;
    points.forEach((p) => p.setAttribute("aria-pressed", String(p.dataset.point === law)));
    if (back) back.hidden = law === first;
    show(law);
  }
  points.forEach((point, i) => {
    const own = point.dataset.point;
    point.addEventListener("mouseenter", () => show(own, card));
    point.addEventListener("mouseleave", () => show(kept, card));
    point.addEventListener("focus", () => show(own, card));
    point.addEventListener("blur", () => show(kept, card));
    point.addEventListener("click", () => keep(own));
    point.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") { keep(own); event.preventDefault(); }
      else if (step && points[i + step]) { points[i + step].focus(); event.preventDefault(); }
    });
  });
  if (back) back.addEventListener("click", () => keep(first));
  if (points.length) keep(first);

  // Some browsers give pages from a file no clipboard; then the text is selected and copied.
  async function copy(source) {
    try { await navigator.clipboard.writeText(source.textContent); return true; } catch { /* below */ }
    const area = document.createElement("textarea");
    area.value = source.textContent;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
  all("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    const text = document.querySelector(`pre[data-text="${button.dataset.copy}"][data-law="${kept}"]`);
    byId("copied").textContent = "";
    const done = await copy(text);
    byId("copied").textContent = done ? "copied" : "not copied: the browser refuses";
    setTimeout(() => { byId("copied").textContent = ""; }, 2000);
  }));

  const video = byId("video");
  if (video) {
    const style = getComputedStyle(video);
    const columns = Number(style.getPropertyValue("--columns"));
    const rows = Number(style.getPropertyValue("--rows"));
    const words = video.dataset.words.split("|"), places = video.dataset.places.split(" ");
    const slider = byId("frame"), play = byId("play");
    let timer = 0;
    video.classList.add("reel");
    const seek = (k) => {
      slider.value = k;
      const x = (k % columns) / columns, y = Math.floor(k / columns) / rows;
      video.firstElementChild.style.transform = `translate(${-100 * x}%, ${-100 * y}%)`;
      byId("when").textContent = words[k];
      byId("now").setAttribute("transform", `translate(${places[k]} 0)`);
    };
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
    slider.addEventListener("input", () => { stop(); seek(Number(slider.value)); });
    play.addEventListener("click", () => {
      if (timer) { stop(); return; }
      timer = setInterval(() => seek((Number(slider.value) + 1) % words.length), 100);
      play.textContent = "Stop";
    });
    seek(0);
  }
  const table = byId("all-laws");
  window.addEventListener("beforeprint", () => { if (table) table.open = true; });
})();
