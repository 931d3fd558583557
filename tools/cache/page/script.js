/* The page of `steergraph cache report`: sort, find, unfold, choose a theme. All that is read stands
   in the markup; the facts of entry number i, whose row is "e" + i, are in the data. */
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");

  /* the theme: what the system says, until the button is pressed */
  const button = document.getElementById("theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
  }
  function nameTheme() {
    button.textContent = isDark() ? "Light" : "Dark";
  }
  button.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();

  /* a text stands in the page once: it is copied to where else it is unfolded */
  document.addEventListener(
    "toggle",
    function (event) {
      const pre = event.target.open ? event.target.querySelector(":scope > pre[data-text]") : null;
      if (pre !== null) {
        pre.textContent = document.getElementById(pre.dataset.text).textContent;
        pre.removeAttribute("data-text");
      }
    },
    true
  );

  /* a link to an entry or a text opens what holds it */
  function openTarget() {
    const target = /^#[et]\d+$/.test(location.hash)
      ? document.getElementById(location.hash.slice(1))
      : null;
    if (target === null) {
      return;
    }
    const inside = target.matches(".entry") ? target.querySelector("details") : target;
    for (let at = inside; at !== null; at = at.parentElement) {
      if (at.matches("details")) {
        at.open = true;
      }
    }
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", openTarget);

  const table = document.getElementById("entries");
  if (table === null) {
    return;
  }
  const facts = JSON.parse(document.getElementById("data").textContent).entries;
  const rows = facts.map(function (fact, i) {
    return { fact: fact, body: document.getElementById("e" + i), number: i };
  });

  /* sort: numbers and times from the largest, texts from the first; what has no value comes last */
  const collator = new Intl.Collator("en", { numeric: true });
  function compare(a, b, by, sign) {
    const x = a.fact[by];
    const y = b.fact[by];
    const hasX = x !== undefined && x !== null;
    const hasY = y !== undefined && y !== null;
    if (!hasX || !hasY) {
      return hasX === hasY ? a.number - b.number : hasX ? -1 : 1;
    }
    const order = typeof x === "number" && typeof y === "number" ? x - y : collator.compare(x, y);
    return order !== 0 ? sign * order : a.number - b.number;
  }
  const heads = Array.from(table.tHead.rows[0].cells);
  function sortBy(head) {
    const first = head.classList.contains("n") ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    rows.sort(function (a, b) {
      return compare(a, b, head.dataset.by, order === "ascending" ? 1 : -1);
    });
    for (const each of heads) {
      each.removeAttribute("aria-sort");
    }
    head.setAttribute("aria-sort", order);
    table.append(
      ...rows.map(function (row) {
        return row.body;
      })
    );
  }
  for (const head of heads) {
    const sorter = document.createElement("button");
    sorter.type = "button";
    sorter.textContent = head.textContent;
    sorter.addEventListener("click", function () {
      sortBy(head);
    });
    head.replaceChildren(sorter);
  }

  /* find: entries that have all words, in any of their texts */
  const find = document.getElementById("find");
  const shown = document.getElementById("shown");
  for (const row of rows) {
    const fact = row.fact;
    row.text = [fact.key, fact.path, fact.signature, fact.compiler, fact.problem]
      .join("\n")
      .toLowerCase();
  }
  find.addEventListener("input", function () {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits = words.every(function (word) {
        return row.text.includes(word);
      });
      row.body.hidden = !fits;
      count += fits;
    }
    shown.textContent = count < rows.length ? count + " of " + rows.length : rows.length;
  });

  /* a click anywhere in a row unfolds it, unless text is being chosen */
  table.addEventListener("click", function (event) {
    const row = event.target.closest(".entry > .row");
    if (row !== null && getSelection().isCollapsed) {
      const details = row.parentElement.querySelector("details");
      details.open = !details.open;
    }
  });

  openTarget();
})();
