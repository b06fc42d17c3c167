// The table of rows: sorted by any column, with the arrow keys, and linked to the plots.

class RowTable {
  constructor(parent) {
    this.parent = parent;
    const [id, observed, ...others] = this.tableColumns();
    this.columns = [id, observed, ...this.modelColumns(), ...others];
    this.order = rows.id.map((_, row) => row);
    this.sorted = { at: -1, sign: 1 };
    this.build();
  }

  tableColumns() {
    const shown = data.columns.map((column, index) => ({
      name: withUnit(column),
      isText: column.kind === "text" || column.kind === "boolean",
      value: (row) => rows[`cell${index}`][row],
      text: (row) => cell(column, rows[`cell${index}`][row]),
    }));
    const id = { name: "row", value: (row) => row, text: (row) => rows.id[row] };
    const observed = {
      name: `observed ${data.target}`,
      isText: isClass,
      value: (row) => rows.observed[row],
      text: (row) => (isClass ? rows.observed[row] : number(rows.observed[row], 9)),
    };
    return [id, observed, ...shown];
  }

  /** Columns whose cells depend on α. */
  modelColumns() {
    const of = (name, key, words, more = {}) => ({
      name, moves: true, value: (row) => fitRows(page.at)[key][row],
      text: (row) => words(fitRows(page.at)[key][row]), ...more,
    });
    const all = (...keys) => everyFit((fit) => keys.flatMap((key) => fit.rows[key]));
    const three = aligned(all("noise", "doubt"), 3);
    const parts = [of("noise", "noise", three), of("doubt", "doubt", three)];
    if (isClass)
      return [
        of("predicted", "predicted", String, { isText: true, off: (row) => !fitRows(page.at).right[row] }),
        of("probability", "sure", (share) => percent(share, 1)),
        of("of the observed", "given", (share) => percent(share, 1)),
        ...parts,
      ];
    const outside = (row) => rows.observed[row] < fitRows(page.at).low[row] || rows.observed[row] > fitRows(page.at).high[row];
    const four = aligned(all("predicted", "low", "high"), 4);
    const end = data.kind === "count" ? number : four;
    return [
      of("predicted", "predicted", four, { off: outside }),
      of("90 % from", "low", end),
      of("to", "high", end),
      ...parts,
    ];
  }

  build() {
    const table = element("table", { "aria-labelledby": "rows-title" });
    const head = element("tr", {}, null, element("thead", {}, null, table));
    this.headers = this.columns.map((column, at) => {
      const header = element("th", { scope: "col", class: column.isText ? "text" : "" }, null, head);
      const button = element("button", { type: "button" }, column.name, header);
      button.addEventListener("click", () => this.sort(at));
      return header;
    });
    this.body = element("tbody", {}, null, table);
    this.lines = rows.id.map((_, row) => this.line(row));
    this.body.append(...this.lines);
    this.lines[0].tabIndex = 0;
    this.parent.replaceChildren(table);
    this.body.addEventListener("pointerover", (event) => page.hover(this.rowOf(event)));
    this.body.addEventListener("pointerleave", () => page.hover(-1));
    this.body.addEventListener("click", (event) => page.pin(this.rowOf(event)));
    this.body.addEventListener("focusin", (event) => page.hover(this.rowOf(event)));
    this.body.addEventListener("focusout", () => page.hover(-1));
    this.body.addEventListener("keydown", (event) => this.press(event));
  }

  line(row) {
    const line = element("tr", { tabindex: "-1", "data-row": row });
    line.cells_ = this.columns.map((column, at) =>
      element(at ? "td" : "th", at ? { class: column.isText ? "text" : "" } : { scope: "row" }, column.text(row), line));
    this.judge(line, row);
    return line;
  }

  judge(line, row) {
    this.columns.forEach((column, at) => {
      if (column.off) line.cells_[at].classList.toggle("off", column.off(row));
    });
  }

  rowOf(event) {
    const line = event.target.closest("tr");
    return line ? Number(line.dataset.row) : -1;
  }

  /** Sort by a column; a second time, in reverse. */
  sort(at) {
    const sign = this.sorted.at === at ? -this.sorted.sign : 1;
    this.sorted = { at, sign };
    this.headers.forEach((header, index) => {
      if (index === at) header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      else header.removeAttribute("aria-sort");
    });
    this.arrange();
  }

  arrange() {
    if (this.sorted.at < 0) return;
    const { value } = this.columns[this.sorted.at];
    const isMissing = (each) => each === null || each === undefined || each === "";
    this.order.sort((a, b) => {
      const [first, second] = [value(a), value(b)];
      if (isMissing(first) || isMissing(second)) return isMissing(first) - isMissing(second) || a - b;
      const sign = typeof first === "string" ? first.localeCompare(second, "en", { numeric: true }) : first - second;
      return this.sorted.sign * sign || a - b;
    });
    this.body.append(...this.order.map((row) => this.lines[row]));
  }

  press(event) {
    const row = this.rowOf(event);
    const at = this.order.indexOf(row);
    const last = this.order.length - 1;
    const goals = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: last };
    if (event.key in goals) this.focus(this.order[Math.min(last, Math.max(0, goals[event.key]))]);
    else if (event.key === "Enter" || event.key === " ") page.pin(row);
    else if (event.key === "Escape") page.pin(-1);
    else return;
    event.preventDefault();
  }

  /** Focus a row; the tab key then reaches this row. */
  focus(row) {
    for (const line of this.lines) line.tabIndex = -1;
    this.lines[row].tabIndex = 0;
    this.lines[row].focus();
  }

  show() {
    this.lines.forEach((line, row) => {
      this.columns.forEach((column, at) => {
        if (column.moves) line.cells_[at].textContent = column.text(row);
      });
      this.judge(line, row);
    });
    if (this.columns[this.sorted.at]?.moves) this.arrange();
  }

  mark(row, pinned) {
    for (const line of this.body.querySelectorAll(".at, .pinned")) {
      line.classList.remove("at", "pinned");
      line.removeAttribute("aria-current");
    }
    if (row >= 0) this.lines[row].classList.add("at");
    if (pinned >= 0) {
      this.lines[pinned].classList.add("pinned");
      this.lines[pinned].setAttribute("aria-current", "true");
    }
  }
}
