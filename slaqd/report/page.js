"use strict";
(() => {
  const marks = [...document.querySelectorAll("[data-job]")];
  const rows = [...document.querySelectorAll("tr[data-job]")];
  const readout = document.getElementById("readout");
  const light = (jobs, text) => {
    document.body.classList.toggle("lit", jobs.size > 0);
    marks.forEach((mark) => mark.classList.toggle("hit", jobs.has(mark.dataset.job)));
    readout.textContent = text;
    readout.hidden = !text;
  };
  const show = (target) => {
    const one = target.closest("[data-job]");
    const kind = target.closest("[data-kind]");
    if (one) {
      const row = rows.find((each) => each.dataset.job === one.dataset.job);
      light(new Set([one.dataset.job]), row ? row.dataset.note : "");
    } else if (kind) {
      light(new Set(kind.dataset.kind.split(" ")), kind.textContent.trim());
    } else {
      light(new Set(), "");
    }
  };
  document.addEventListener("pointerover", (event) => show(event.target));
  document.addEventListener("focusin", (event) => show(event.target));
  document.addEventListener("focusout", () => light(new Set(), ""));
  document.addEventListener("keydown", (event) => {
    const at = rows.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      document.activeElement.blur();
      light(new Set(), "");
    } else if (at >= 0 && step && rows[at + step]) {
      event.preventDefault();
      rows[at + step].focus();
    }
  });
})();
