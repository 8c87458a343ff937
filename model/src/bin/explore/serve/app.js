// Saves page loads and adds keys. Every page is complete without it.
"use strict";

// Puts the main part of another page of this server in place of this one's.
async function go(address, record) {
  const response = await fetch(address);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const main = page.querySelector("main");
  if (!main) { location.assign(address); return; }
  document.querySelector("main").replaceWith(main);
  document.title = page.title;
  if (record) history[record](null, "", address);
  ready();
}

function follow(rel) {
  const link = document.querySelector(`main a[rel="${rel}"]`);
  if (link) go(link.href, "pushState");
  return Boolean(link);
}

const KEYS = { ArrowRight: "next", ArrowLeft: "prev", Home: "first", End: "last", n: "interesting" };

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest("input, select, textarea")) return;
  if (KEYS[event.key] && follow(KEYS[event.key])) event.preventDefault();
  if (/^[1-9]$/.test(event.key)) {
    const choice = document.querySelectorAll(".choices a")[Number(event.key) - 1];
    if (choice) go(choice.href, "pushState");
  }
});

document.addEventListener("click", (event) => {
  if (event.button || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest(".story a");
  if (!link || link.hasAttribute("download")) return;
  const href = link.getAttribute("href");
  if (!/^\/(trace|path|file)\//.test(href)) return;
  event.preventDefault();
  go(href, "pushState");
});

addEventListener("popstate", () => go(location.href, null));

// The slider, and the search under way.
function ready() {
  const slider = document.querySelector(".slider");
  if (slider) slider.addEventListener("change", () => {
    const address = new URL(slider.dataset.address, location.href);
    address.searchParams.set("at", slider.value);
    go(address.href, "replaceState").then(() => { const next = document.querySelector(".slider"); if (next) next.focus(); });
  });
  const progress = document.querySelector("#progress[data-running=true]");
  if (progress) setTimeout(() => look(progress), 400);
}

async function look(progress) {
  if (!progress.isConnected) return;
  const answer = await fetch("/run/progress").catch(() => null);
  if (!answer) { progress.querySelector("[role=status]").textContent = "the server has ended"; return; }
  const now = await answer.json();
  if (!now.running) { go("/run", null); return; }
  for (const field of progress.querySelectorAll("[data-field]")) {
    const value = now[field.dataset.field];
    field.textContent = field.dataset.field === "seconds" ? value.toFixed(1) : String(value);
  }
  setTimeout(() => look(progress), 400);
}

ready();
