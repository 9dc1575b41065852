"use strict";
// Filters hide whatever carries another value; sorting reorders the rows of a table. Nothing is fetched or computed.
const NAMES = ["domain", "task", "kind", "source", "algorithm"];
const form = document.querySelector(".filters");
const marked = document.querySelectorAll(NAMES.map((name) => `[data-${name}]`).join());

function chosen() {
  return Object.fromEntries(new FormData(form));
}

function filter() {
  const wanted = chosen();
  document.body.classList.toggle("best", wanted.which === "best");
  for (const element of marked) {
    const differs = NAMES.some((name) => wanted[name] && element.dataset[name] && element.dataset[name] !== wanted[name]);
    element.classList.toggle("off", differs);
  }
  const scopes = new Set([...document.querySelectorAll("[data-scope]")].map((element) => element.dataset.scope));
  const scope = scopes.has(wanted.domain) ? wanted.domain : form.dataset.everything;
  for (const element of document.querySelectorAll("[data-scope]")) {
    element.classList.toggle("off", element.dataset.scope !== scope);
  }
  for (const group of document.querySelectorAll("[data-group]")) {
    const left = group.querySelectorAll("[data-item]:not(.off)").length;
    group.classList.toggle("off", left === 0);
    if (left > 0 && wanted.task) group.open = true;
  }
  const rows = document.querySelectorAll("#results tbody tr");
  const shown = [...rows].filter((row) => !row.classList.contains("off")).length;
  document.getElementById("count").textContent = `${shown} of ${rows.length} rows`;
}

function sort(header) {
  const table = header.closest("table");
  const column = [...header.parentElement.children].indexOf(header);
  const ascending = header.getAttribute("aria-sort") !== "ascending";
  for (const other of header.parentElement.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent.trim();
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return (x === "") - (y === "");  // cells without a number stay at the end
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return ascending ? order : -order;
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
}

form.addEventListener("input", filter);
form.addEventListener("reset", () => setTimeout(filter));
for (const header of document.querySelectorAll("th:has(button)")) {
  header.querySelector("button").addEventListener("click", () => sort(header));
}
filter();
