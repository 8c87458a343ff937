// Saves page loads and adds keys. Every page is complete without it.
"use strict";

// One after another, in the order they were asked for: however late an answer is, the last wish is what is seen in the end, and
// each key finds the page that the one before it led to.
let turn = Promise.resolve();
let waiting = 0;

function inTurn(act) {
  waiting += 1;
  turn = turn.then(act).catch(console.error).then(() => { waiting -= 1; });
  return turn;
}

// Puts the main part of another page of this server in place of this one's.
async function go(address, record) {
  const text = await fetch(address).then((response) => response.text()).catch(() => "");
  const page = new DOMParser().parseFromString(text, "text/html");
  const main = page.querySelector("main");
  if (!main) { location.assign(address); return; }
  document.querySelector("main").replaceWith(main);
  document.title = page.title;
  if (record) history[record](null, "", address);
  ready();
}

const KEYS = { ArrowRight: "next", ArrowLeft: "prev", Home: "first", End: "last", n: "interesting" };

// Where a key leads from the page that is seen.
function leads(key) {
  if (KEYS[key]) return document.querySelector(`main a[rel="${KEYS[key]}"]`);
  return /^[1-9]$/.test(key) ? document.querySelectorAll(".choices a")[Number(key) - 1] : null;
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest("input, select, textarea")) return;
  if (!waiting && !leads(event.key)) return;
  if (KEYS[event.key]) event.preventDefault();
  // A key that is held down waits for the page.
  if (waiting && event.repeat) return;
  inTurn(() => { const link = leads(event.key); return link && go(link.href, "pushState"); });
});

document.addEventListener("click", (event) => {
  if (event.button || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest(".story a");
  if (!link || link.hasAttribute("download")) return;
  const href = link.getAttribute("href");
  if (!/^\/(trace|path|file)\//.test(href)) return;
  event.preventDefault();
  inTurn(() => go(href, "pushState"));
});

// Replaced, because a page that was on its way may have put its own address there meanwhile.
addEventListener("popstate", () => {
  const address = location.href;
  inTurn(() => go(address, "replaceState"));
});

// The slider, and the search under way.
function ready() {
  const slider = document.querySelector(".slider");
  if (slider) slider.addEventListener("change", () => {
    const address = new URL(slider.dataset.address, location.href);
    address.searchParams.set("at", slider.value);
    inTurn(() => go(address.href, "replaceState")).then(() => { const next = document.querySelector(".slider"); if (next) next.focus(); });
  });
  const progress = document.querySelector("#progress[data-running=true]");
  if (progress) setTimeout(() => look(progress), 400);
}

async function look(progress) {
  if (!progress.isConnected) return;
  const answer = await fetch("/run/progress").catch(() => null);
  if (!answer) { progress.querySelector("[role=status]").textContent = "the server has ended"; return; }
  const now = await answer.json();
  if (!now.running) { inTurn(() => progress.isConnected && go("/run", null)); return; }
  for (const field of progress.querySelectorAll("[data-field]")) {
    const value = now[field.dataset.field];
    field.textContent = field.dataset.field === "seconds" ? value.toFixed(1) : String(value);
  }
  setTimeout(() => look(progress), 400);
}

ready();
