"use strict";
// A click or a key on a heading sorts its table: numbers by value, unknown numbers last.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const key = (row, n) => {
    const cell = row.cells[n];
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    return cell.classList.contains("n") ? null : cell.textContent;
  };
  const sort = (heading, n) => {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    const compare = (a, b) => {
      const x = key(a, n), y = key(b, n);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
      return up ? order : -order;
    };
    for (const other of headings) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...[...body.rows].sort(compare));
  };
  headings.forEach((heading, n) => {
    heading.setAttribute("aria-sort", "none");
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sort(heading, n));
    heading.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault(); // the space bar would scroll the page
      sort(heading, n);
    });
  });
}
