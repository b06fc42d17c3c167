// The plots. Each is an object that has axes, draws its marks once per size, and moves them when α
// changes. `places` are the pixels of the rows, so that any row can be marked in every plot.

const INTERVAL = "90\u00a0% interval";
const rows = data.rows;
const numRows = rows.id.length;
const fitRows = (k) => data.fits[k].rows;
const everyFit = (pick) => data.fits.flatMap(pick);

class Plot {
  /** A panel with a title, a drawing, a key, a caption and its numbers as a table. */
  constructor(spec, parent) {
    this.spec = spec;
    this.panel = element("section", { class: `plot ${spec.size ?? ""}`, id: spec.id }, null, parent);
    this.panel.setAttribute("aria-labelledby", `${spec.id}-title`);
    const title = element("h2", {}, null, this.panel);
    element("span", { id: `${spec.id}-title` }, spec.title, title);
    if (spec.control) title.append(spec.control);
    this.holder = element("div", {}, null, this.panel);
    this.key = element("ul", { class: "key" }, null, this.panel);
    if (spec.finding) element("p", { class: "finding" }, spec.finding, this.panel);
    element("p", { class: "caption" }, spec.caption, this.panel);
    if (spec.table) this.addTable();
    this.holder.addEventListener("pointermove", (event) => this.hover(event));
    this.holder.addEventListener("pointerleave", () => { hideTip(); page.hover(-1); });
    this.holder.addEventListener("click", (event) => page.pin(this.nearest(event)));
    this.width = 0;
  }

  addTable() {
    this.details = element("details", {}, null, this.panel);
    element("summary", {}, `${this.spec.title} as a table`, this.details);
    this.numbers = element("div", { class: "scroll", tabindex: "0", role: "region" }, null, this.details);
    this.numbers.setAttribute("aria-label", `${this.spec.title}: numbers`);
    this.details.addEventListener("toggle", () => this.fillTable());
  }

  fillTable() {
    if (!this.details?.open) return;
    const [header, lines] = this.spec.table(page.at);
    plainTable(this.numbers, `${this.spec.title} ${atPower(page.at)}`, header, lines);
  }

  /** Draw everything again for the available width. */
  draw() {
    const width = Math.max(200, Math.floor(this.holder.clientWidth));
    this.width = width;
    const height = Math.round(Math.min(360, Math.max(250, width * 0.62)));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    set(svg, { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
    this.holder.replaceChildren(svg);
    this.svg = svg;
    const box = { left: 12, right: width - 20, top: 26, bottom: height - 40 };
    const { x, y } = this.spec.axes();
    const probe = y.scale(box.bottom, box.top);
    box.left += 8 + 7 * Math.max(...probe.ticks.map((tick) => tick.text.length), 1);
    this.box = box;
    this.x = x.scale(box.left, box.right);
    this.y = probe;
    this.frame(svg, x.label, y.label);
    const clip = `${this.spec.id}-clip`;
    const hole = shape("clipPath", { id: clip }, shape("defs", {}, svg));
    shape("rect", {
      x: box.left - 5, y: box.top - 5,
      width: box.right - box.left + 10, height: box.bottom - box.top + 10,
    }, hole);
    this.layer = shape("g", { "clip-path": `url(#${clip})` }, svg);
    this.spec.build(this);
    this.markShape = shape("circle", { class: "mark", r: 7, cx: -99, cy: -99 }, this.layer);
    this.drawKey();
    this.show(page.at);
  }

  frame(svg, xLabel, yLabel) {
    const { left, right, top, bottom } = this.box;
    for (const { at, text } of this.y.ticks) {
      const y = this.y(at);
      shape("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }, svg);
      shape("text", { x: left - 7, y: y + 4, "text-anchor": "end" }, svg, text);
    }
    for (const { at, text } of this.x.ticks)
      shape("text", { x: this.x(at), y: bottom + 17, "text-anchor": "middle" }, svg, text);
    shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }, svg);
    const most = Math.floor((right - 4) / 6.6);
    const cut = (text) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
    shape("text", { class: "label", x: 2, y: 13 }, svg, cut(yLabel));
    shape("text", { class: "label", x: right, y: bottom + 35, "text-anchor": "end" }, svg, cut(xLabel));
  }

  drawKey() {
    this.key.replaceChildren();
    for (const [kind, name, text, color] of this.spec.key()) {
      const item = element("li", {}, null, this.key);
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      set(svg, { viewBox: "0 0 22 12", "aria-hidden": "true" });
      const sample = shape(kind, { ...KEY_SHAPES[kind], class: name }, svg);
      if (color) sample.style.setProperty(kind === "line" ? "stroke" : "fill", color);
      item.append(svg, text);
    }
  }

  show(k) {
    this.spec.show(this, k);
    this.svg.setAttribute("aria-label", this.spec.say(k));
    this.mark(page.row);
    this.fillTable();
  }

  mark(row) {
    const place = row >= 0 && this.spec.place ? this.spec.place(this, row, page.at) : null;
    set(this.markShape, place ? { cx: place[0], cy: place[1] } : { cx: -99, cy: -99 });
  }

  /** The row whose mark is nearest to the pointer, or −1 if none is near. */
  nearest(event) {
    if (!this.spec.place) return -1;
    const [px, py] = this.pointer(event);
    let best = -1, least = 22 * 22;
    for (let row = 0; row < numRows; row += 1) {
      const place = this.spec.place(this, row, page.at);
      if (!place) continue;
      const distance = (place[0] - px) ** 2 + (place[1] - py) ** 2;
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  }

  pointer(event) {
    const { left, top } = this.svg.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  hover(event) {
    const row = this.nearest(event);
    page.hover(row);
    const [px, py] = this.pointer(event);
    const { left, right, top, bottom } = this.box;
    const isInside = px >= left - 4 && px <= right + 4 && py >= top - 4 && py <= bottom + 4;
    const text = row >= 0 ? rowText(row) : isInside && this.spec.tip ? this.spec.tip(this, px, page.at) : "";
    if (text) showTip(text, event.clientX, event.clientY);
    else hideTip();
  }
}

const KEY_SHAPES = {
  line: { x1: 0, x2: 22, y1: 6, y2: 6 },
  rect: { x: 0, y: 0, width: 22, height: 12 },
  circle: { cx: 11, cy: 6, r: 4 },
};

/** A row in words, for the pointer. */
function rowText(row) {
  const fit = fitRows(page.at);
  const unit = isClass ? " nats" : "";
  const said = isClass
    ? `predicted ${fit.predicted[row]} (${percent(fit.sure[row])})`
    : `predicted ${number(fit.predicted[row])}, 90 %: ${number(fit.low[row])} to ${number(fit.high[row])}`;
  return [
    `Row ${rows.id[row]}`,
    `observed ${isClass ? rows.observed[row] : number(rows.observed[row], 6)}`,
    said,
    `noise ${number(fit.noise[row], 3)}${unit}, doubt ${number(fit.doubt[row], 3)}${unit}`,
  ].join("\n");
}

function showTip(text, x, y) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

/** Circles, one for each row; some of them may have no place. */
function circles(plot, className) {
  return rows.id.map((_, row) => shape("circle", { class: className(row), r: 2.8 }, plot.layer));
}

function moveCircles(plot, made, k) {
  made.forEach((circle, row) => {
    const place = plot.spec.place(plot, row, k);
    set(circle, place ? { cx: place[0].toFixed(1), cy: place[1].toFixed(1) } : { cx: -99, cy: -99 });
  });
}

/** A number from 0 to 1 for each row, to separate rows at the same place. */
const spread = (row) => (row * 0.618034) % 1;

// Along one column -------------------------------------------------------------------------------

function alongPlot() {
  const choose = element("select", { "aria-label": "Column" });
  data.columns.forEach((column, index) => element("option", { value: index }, column.name, choose));
  choose.value = data.first;
  const number_ = () => Number(choose.value);
  const column = () => data.columns[number_()];
  const curve = (k) => data.fits[k].curves[number_()];
  const isBanded = () => column().labels.length > 0;
  const two = isClass && data.classes.length === 1;
  const value = (row) => rows[`${isBanded() ? "place" : "cell"}${number_()}`][row];
  const height = (row, k) => {
    if (!isClass) return rows.observed[row];
    const given = fitRows(k).given[row];
    return two && rows.observed[row] !== data.classes[0] ? 1 - given : given;
  };
  const classOf = (row) => (two
    ? Number(rows.observed[row] !== data.classes[0])
    : data.classes.indexOf(rows.observed[row]));
  const curveClasses = () => data.classes.map((_, index) => index);

  const spec = {
    id: "along",
    size: "wide",
    title: "Along one column",
    control: choose,
    caption: isClass
      ? "The average prediction if every row had this value and kept its other columns. " +
        `The band is doubt: it covers 90\u00a0% of the networks that the model considers plausible. ${two
          ? "Dots are rows, colored by their observed class."
          : "Dots are rows, at the probability of their observed class."}`
      : "The average prediction if every row had this value and kept its other columns. Doubt " +
        "covers 90\u00a0% of the networks that the model considers plausible; the interval is for a " +
        "new observation.",
    axes() {
      const { grid, kind, log, labels } = column();
      const spreadOf = grid.length > 1 ? grid : [grid[0] - 1, grid[0] + 1];
      const [low, high] = range(spreadOf, log ? 0 : 0.02);
      const x = (from, to) => {
        if (isBanded()) return banded(labels, from, to);
        if (log) return logarithmic(low, high, from, to);
        return kind === "date" ? dated(low, high, from, to) : linear(low, high, from, to);
      };
      let ends = [-0.02, 1.02];
      if (!isClass) {
        const curves = data.fits.map((fit) => fit.curves[number_()]);
        ends = range([...curves.flatMap((each) => each.interval.flat()), ...typical(rows.observed)]);
      }
      const y = (from, to) => linear(...ends, from, to, isClass ? (share) => percent(share) : undefined);
      const what = two ? `probability of ${data.classes[0]}` : "probability of the class";
      return { x: { scale: x, label: withUnit(column()) }, y: { scale: y, label: isClass ? what : data.target } };
    },
    build(plot) {
      const kinds = isClass ? curveClasses() : [null];
      const dots = circles(plot, (row) => (isClass ? `dot class${classOf(row)}` : "dot"));
      if (isClass) dots.forEach((dot, row) => dot.style.setProperty("fill", classColor(classOf(row))));
      plot.dots = dots;
      plot.bands = isClass ? [] : [shape("path", { class: "band" }, plot.layer)];
      plot.doubts = kinds.map(() => shape("path", { class: "doubt" }, plot.layer));
      plot.lines = kinds.map(() => shape("path", { class: "line" }, plot.layer));
      if (isClass)
        kinds.forEach((index) => {
          plot.lines[index].style.setProperty("stroke", classColor(index));
          plot.doubts[index].style.setProperty("fill", classColor(index));
          plot.doubts[index].style.setProperty("fill-opacity", two ? "0.25" : "0.15");
        });
    },
    show(plot, k) {
      const { mean, doubt, interval } = curve(k);
      const kinds = isClass ? curveClasses() : [null];
      const of = (entry, index) => (index === null ? entry : entry[index]);
      if (interval) set(plot.bands[0], { d: area(plot, interval) });
      kinds.forEach((index, at) => {
        set(plot.doubts[at], { d: area(plot, doubt.map((ends) => of(ends, index))) });
        set(plot.lines[at], { d: stroke(plot, mean.map((entry) => of(entry, index))) });
      });
      moveCircles(plot, plot.dots, k);
    },
    place(plot, row, k) {
      const at = value(row), up = height(row, k);
      if (at === null || at === undefined || up === null) return null;
      const shift = isBanded() ? (spread(row) - 0.5) * plot.x.width * 0.5 : 0;
      return [plot.x(at) + shift, plot.y(up)];
    },
    tip(plot, px, k) {
      const { grid } = column();
      const wanted = plot.x.value(px);
      const nearest = grid.reduce((best, each, index) =>
        (Math.abs(each - wanted) < Math.abs(grid[best] - wanted) ? index : best), 0);
      return [`${column().name}: ${place(nearest)}`, ...lineOf(k, nearest)].join("\n");
    },
    key() {
      const dots = isClass && !two ? [] : [["circle", "dot", isClass ? "rows" : "observed"]];
      if (!isClass)
        return [
          ["line", "line", "prediction"], ["rect", "doubt", "doubt"],
          ["rect", "band", INTERVAL], ...dots,
        ];
      if (two)
        return [
          ["line", "line", `probability of ${data.classes[0]}`],
          ["rect", "doubt", "doubt"],
          ["circle", "dot", `observed ${data.classes[0]}`, classColor(0)],
          ["circle", "dot", `observed ${rows.observed.find((name) => name !== data.classes[0]) ?? "the other class"}`, classColor(1)],
        ];
      return data.classes.map((name, index) => ["line", "line", name, classColor(index)]);
    },
    say(k) {
      const { mean } = curve(k);
      const middle = isClass ? mean.map((entry) => entry[0]) : mean;
      const words = isClass ? percent : number;
      const what = isClass ? `probability of ${data.classes[0]}` : `predicted ${data.target}`;
      const last = column().grid.length - 1;
      return `Along ${column().name} ${atPower(k)}: ${what} from ` +
        `${words(middle[0])} at ${place(0)} to ${words(middle[last])} at ${place(last)}.`;
    },
    table(k) {
      const header = isClass
        ? [column().name, ...data.classes.flatMap((name) => [name, "doubt from", "to"])]
        : [column().name, "prediction", "doubt from", "to", "interval from", "to"];
      return [header, column().grid.map((_, index) => [place(index), ...numbersOf(k, index)])];
    },
  };

  /** A place on the grid in words. */
  function place(index) {
    const { grid, kind, labels } = column();
    if (isBanded()) return labels[index];
    return kind === "date" ? date(Math.round(grid[index])) : number(grid[index]);
  }

  function numbersOf(k, index) {
    const { mean, doubt, interval } = curve(k);
    if (!isClass) return [mean[index], ...doubt[index], ...interval[index]].map((each) => number(each));
    return data.classes.flatMap((_, at) =>
      [mean[index][at], ...doubt[index][at]].map((share) => percent(share, 1)));
  }

  function lineOf(k, index) {
    const cells = numbersOf(k, index);
    if (!isClass)
      return [`prediction ${cells[0]}`, `doubt ${cells[1]} to ${cells[2]}`, `interval ${cells[3]} to ${cells[4]}`];
    return data.classes.map((name, at) => `${name} ${cells[3 * at]} (${cells[3 * at + 1]} to ${cells[3 * at + 2]})`);
  }

  /** The corners of a line or a band: on a grid, or flat within each label. */
  function points(plot, values, side = null) {
    const { grid } = column();
    if (!isBanded()) return values.map((each, index) => [plot.x(grid[index]), plot.y(each)]);
    const half = plot.x.width * 0.32;
    return values.map((each, index) => [plot.x(index) + (side ?? 0) * half, plot.y(each)]);
  }

  function stroke(plot, values) {
    if (!isBanded()) return path(points(plot, values));
    return values.map((each, index) =>
      path([-1, 1].map((side) => points(plot, values, side)[index]))).join("");
  }

  function area(plot, ends) {
    const [low, high] = [0, 1].map((side) => ends.map((pair) => pair[side] ?? pair[1 - side]));
    if (!isBanded()) return path(points(plot, high), points(plot, low));
    return low.map((_, index) =>
      path([-1, 1].map((side) => points(plot, high, side)[index]),
        [-1, 1].map((side) => points(plot, low, side)[index]))).join("");
  }

  spec.choose = choose;
  return spec;
}

const classColor = (index) => (index < 0 ? "var(--soft)" : `var(--class${index})`);

// Rows ---------------------------------------------------------------------------------------------

function predictedPlot() {
  // Counts lie on each other unless they are set apart.
  const across = (row) => rows.observed[row] + (data.kind === "count" ? 0.6 * (spread(row) - 0.5) : 0);
  const ends = () => range([
    ...typical(rows.observed),
    ...data.fits.flatMap((_, k) => [...typical(fitRows(k).low), ...typical(fitRows(k).high)]),
  ]);
  return {
    id: "predicted",
    title: "Predicted and observed",
    caption: "The prediction for each row, with its 90\u00a0% interval. On the dashed line, the " +
      "prediction equals the observation. The model was fitted to these rows.",
    axes: () => ({
      x: { scale: (from, to) => linear(...range(typical(rows.observed)), from, to), label: `observed ${data.target}` },
      y: { scale: (from, to) => linear(...ends(), from, to), label: `predicted ${data.target}` },
    }),
    build(plot) {
      const [low, high] = range(typical(rows.observed));
      plot.intervals = rows.id.map(() => shape("path", { class: "interval" }, plot.layer));
      plot.dots = circles(plot, () => "said");
      shape("line", { class: "diagonal", x1: plot.x(low), y1: plot.y(low), x2: plot.x(high), y2: plot.y(high) }, plot.layer);
    },
    show(plot, k) {
      const fit = fitRows(k);
      plot.intervals.forEach((line, row) => {
        const x = plot.x(across(row));
        set(line, { d: path([[x, plot.y(fit.low[row])], [x, plot.y(fit.high[row])]]) });
      });
      moveCircles(plot, plot.dots, k);
    },
    place: (plot, row, k) => [plot.x(across(row)), plot.y(fitRows(k).predicted[row])],
    key: () => [["circle", "said", "prediction"], ["line", "interval", INTERVAL]],
    say(k) {
      const fit = fitRows(k);
      const inside = rows.observed.filter((y, row) => y >= fit.low[row] && y <= fit.high[row]).length;
      return `Predicted against observed ${data.target} ${atPower(k)}: ` +
        `${inside} of ${numRows} rows lie in their 90\u00a0% interval. The table of rows has the numbers.`;
    },
  };
}

function doubtPlot() {
  const high = (name) => Math.max(...everyFit((fit) => [quantile(fit.rows[name], 0.99) ?? 0])) * 1.06 || 1;
  const unit = isClass ? "nats" : `deviation of ${data.target}`;
  return {
    id: "doubt",
    size: isClass ? "narrow" : "",
    title: "Noise and doubt",
    caption: "With more data, noise would remain; doubt about the network would shrink. " +
      (isClass ? "Both add up to the entropy of the prediction." : "Their squares add up to the predictive variance."),
    axes: () => ({
      x: { scale: (from, to) => linear(0, high("noise"), from, to), label: `noise (${unit})` },
      y: { scale: (from, to) => linear(0, high("doubt"), from, to), label: `doubt (${unit})` },
    }),
    build(plot) {
      plot.dots = circles(plot, () => "said");
    },
    show(plot, k) {
      const { right } = fitRows(k);
      if (isClass) plot.dots.forEach((dot, row) => dot.setAttribute("class", right[row] ? "said" : "wrong"));
      moveCircles(plot, plot.dots, k);
    },
    place(plot, row, k) {
      const { noise, doubt } = fitRows(k);
      return noise[row] === null || doubt[row] === null ? null : [plot.x(noise[row]), plot.y(doubt[row])];
    },
    key: () => (isClass
      ? [["circle", "said", "predicted right"], ["circle", "wrong", "predicted wrong"]]
      : [["circle", "said", "row"]]),
    say(k) {
      const { noise, doubt } = fitRows(k);
      return `Noise against doubt ${atPower(k)}: median noise ` +
        `${number(quantile(noise, 0.5), 3)}, median doubt ${number(quantile(doubt, 0.5), 3)} (${unit}). ` +
        "The table of rows has the numbers.";
    },
  };
}

// Calibration --------------------------------------------------------------------------------------

const Z90 = 1.645; // 90 % of a Gaussian lies within this many standard deviations
const chance = (share) => Z90 * Math.sqrt(Math.max(0, share * (1 - share)) / data.scored);
const within = (share) => Math.min(1, Math.max(0, share));
const shares = (label) => ({ scale: (from, to) => linear(0, 1, from, to, (share) => percent(share)), label });

function calibrationPlot() {
  const { levels } = data.fits[0].calibration;
  return {
    id: "calibration",
    title: "Calibration",
    caption: "The share of rows inside their central interval, at each level; each row is predicted " +
      "without itself. Above the dashed line, intervals are too wide; below it, too narrow. Gray is " +
      "the range that chance allows.",
    axes: () => ({ x: shares("level of the interval"), y: shares("rows inside") }),
    build(plot) {
      const ends = [1, -1].map((side) =>
        levels.map((level) => [plot.x(level), plot.y(within(level + side * chance(level)))]));
      shape("path", { class: "chance", d: path(...ends) }, plot.layer);
      shape("line", { class: "diagonal", x1: plot.x(0), y1: plot.y(0), x2: plot.x(1), y2: plot.y(1) }, plot.layer);
      plot.line = shape("path", { class: "line" }, plot.layer);
    },
    show(plot, k) {
      const { covered } = data.fits[k].calibration;
      set(plot.line, { d: path(levels.map((level, at) => [plot.x(level), plot.y(covered[at])])) });
    },
    tip(plot, px, k) {
      const at = Math.round(within(plot.x.value(px)) * (levels.length - 1));
      return `${percent(levels[at])} intervals\nhold ${percent(data.fits[k].calibration.covered[at], 1)} of the rows`;
    },
    key: () => [["line", "line", "model"], ["rect", "chance", "calibrated, 90 %"]],
    say(k) {
      const { scores } = data.fits[k];
      return `Calibration ${atPower(k)}: 50\u00a0% intervals hold ` +
        `${percent(scores.coverage_50)} of the rows, 90\u00a0% intervals ${percent(scores.coverage_90)}.`;
    },
    table: (k) => [["level", "rows inside"], levels.map((level, at) =>
      [percent(level, 1), percent(data.fits[k].calibration.covered[at], 1)])],
  };
}

function reliabilityPlot() {
  const bins = (k) => data.fits[k].calibration.reliability;
  const allowed = ({ confidence, rows: count }) => {
    const error = Z90 * Math.sqrt((confidence * (1 - confidence)) / count);
    return [within(confidence - error), within(confidence + error)];
  };
  return {
    id: "calibration",
    size: "narrow",
    title: "Calibration",
    caption: "Rows grouped by the probability of their predicted class; each row is predicted " +
      "without itself. On the dashed line, the model is right as often as it says. Gray is the " +
      "range that chance allows.",
    axes: () => ({ x: shares("probability of the predicted class"), y: shares("predicted right") }),
    build(plot) {
      shape("line", { class: "diagonal", x1: plot.x(0), y1: plot.y(0), x2: plot.x(1), y2: plot.y(1) }, plot.layer);
      plot.group = shape("g", {}, plot.layer);
    },
    show(plot, k) {
      plot.group.replaceChildren();
      for (const bin of bins(k)) {
        const [low, high] = allowed(bin).map(plot.y);
        const x = plot.x(bin.confidence);
        shape("rect", { class: "chance", x: x - 5, y: high, width: 10, height: Math.max(1, low - high) }, plot.group);
        shape("circle", { class: "said", cx: x, cy: plot.y(bin.accuracy), r: 5 }, plot.group);
      }
    },
    tip(plot, px, k) {
      const near = bins(k).reduce((best, bin) =>
        (Math.abs(plot.x(bin.confidence) - px) < Math.abs(plot.x(best.confidence) - px) ? bin : best));
      return `${near.rows} rows, mean confidence ${percent(near.confidence)}\nright in ${percent(near.accuracy)}`;
    },
    key: () => [["circle", "said", "model"], ["rect", "chance", "calibrated, 90 %"]],
    say(k) {
      const { confidence, accuracy } = data.fits[k].scores;
      return `Calibration ${atPower(k)}: mean confidence ${percent(confidence, 1)}, ` +
        `right in ${percent(accuracy, 1)} of the rows.`;
    },
    table: (k) => [["probability", "predicted right", "rows"], bins(k).map((bin) =>
      [percent(bin.confidence, 1), percent(bin.accuracy, 1), String(bin.rows)])],
  };
}

function histogramPlot() {
  const bars = (k) => data.fits[k].calibration.histogram;
  const second = (k) => data.fits[k].calibration.wrong ?? bars(k).map(() => 0);
  const count = bars(0).length;
  const most = Math.max(...data.fits.flatMap((_, k) => bars(k).map((share, at) => share + second(k)[at])));
  const top = Math.max(most * 1.08, 1 / count + 2 * chance(1 / count));
  const edge = (at) => percent(at / count);
  return {
    id: "histogram",
    size: isClass ? "narrow" : "",
    title: isClass ? "Probability of the true class" : "Where observations fall",
    caption: isClass
      ? "The probability of the observed class; each row is predicted without itself. Farther right is better."
      : "The predicted probability of a value below the observed one (probability integral " +
        "transform); each row is predicted without itself. Level bars mean calibrated; a hump means " +
        "that intervals are too wide, a bowl that they are too narrow.",
    axes: () => ({
      x: shares(isClass ? "probability" : "predicted probability of a smaller value"),
      y: { scale: (from, to) => linear(0, top, from, to, (share) => percent(share)), label: "rows" },
    }),
    build(plot) {
      if (!isClass) {
        const ends = [1, -1].map((side) => [0, 1].map((x) =>
          [plot.x(x), plot.y(Math.max(0, 1 / count + side * chance(1 / count)))]));
        shape("path", { class: "chance", d: path(...ends) }, plot.layer);
      }
      const bar = (name) => bars(0).map((_, at) => shape("rect", {
        class: name, x: plot.x(at / count) + 1, width: plot.x(1 / count) - plot.x(0) - 2,
      }, plot.layer));
      plot.first = bar("bin");
      plot.second = isClass ? bar("bin second") : [];
      if (!isClass) {
        const level = plot.y(1 / count);
        shape("line", { class: "diagonal", x1: plot.x(0), x2: plot.x(1), y1: level, y2: level }, plot.layer);
      }
    },
    show(plot, k) {
      const tall = (low, high) => ({ y: plot.y(high), height: Math.max(0, plot.y(low) - plot.y(high)) });
      plot.first.forEach((rect, at) => set(rect, tall(0, bars(k)[at])));
      plot.second.forEach((rect, at) => set(rect, tall(bars(k)[at], bars(k)[at] + second(k)[at])));
    },
    tip(plot, px, k) {
      const at = Math.min(count - 1, Math.floor(within(plot.x.value(px)) * count));
      const words = isClass
        ? `\n${percent(bars(k)[at], 1)} of the rows predicted right\n${percent(second(k)[at], 1)} predicted wrong`
        : `\n${percent(bars(k)[at], 1)} of the rows`;
      return `${edge(at)} to ${edge(at + 1)}${words}`;
    },
    key: () => (isClass
      ? [["rect", "bin", "predicted right"], ["rect", "bin second", "predicted wrong"]]
      : [["rect", "bin", "model"], ["rect", "chance", "calibrated, 90 %"]]),
    say(k) {
      const all = bars(k).map((share, at) => percent(share + second(k)[at])).join(", ");
      return `Histogram ${atPower(k)}, rows in each tenth from 0 to 1: ${all}.`;
    },
    table: (k) => [
      isClass ? ["probability", "predicted right", "predicted wrong"] : ["probability", "rows"],
      bars(k).map((share, at) => [
        `${edge(at)} to ${edge(at + 1)}`, percent(share, 1), ...(isClass ? [percent(second(k)[at], 1)] : []),
      ]),
    ],
  };
}

// Scores -------------------------------------------------------------------------------------------

const MIXTURE_GAP = 0.6; // in α

function scorePlot() {
  const score = (k) => data.fits[k].scores.log_likelihood;
  const error = (k) => data.fits[k].scores.log_likelihood_error ?? 0;
  const known = data.alphas.map((_, k) => k).filter((k) => score(k) !== null);
  // A mixture stands apart, to the right of all powers, and no line leads to it.
  const right = Math.max(0, ...data.alphas);
  const places = data.alphas.map((alpha) => alpha ?? right + MIXTURE_GAP);
  const ends = known.flatMap((k) => [score(k) - error(k), score(k) + error(k)]);
  return {
    id: "score",
    size: "narrow",
    title: "Which α predicts best",
    finding: data.reason,
    caption: "Log-likelihood per left-out row; higher is better. Bars are standard errors. Differences " +
      "are known more precisely than the bars suggest, because all scores are of the same rows.",
    axes: () => ({
      x: { scale(from, to) {
        const scale = linear(...range(places, 0.08), from, to);
        scale.ticks = places.map((at, k) => ({ at, text: tickText(k) }));
        return scale;
      }, label: "α" },
      y: { scale: (from, to) => linear(...range(ends, 0.12), from, to), label: "log-likelihood (nats)" },
    }),
    build(plot) {
      const place = (k) => [plot.x(places[k]), plot.y(score(k))];
      for (const k of known) {
        const x = plot.x(places[k]);
        shape("line", { class: "error", x1: x, x2: x, y1: plot.y(score(k) - error(k)), y2: plot.y(score(k) + error(k)) }, plot.layer);
      }
      shape("path", { class: "line", d: path(known.filter((k) => !isMixture(k)).map(place)) }, plot.layer);
      plot.points = new Map(known.map((k) => [k, shape("circle", { class: "score", r: 5, cx: place(k)[0], cy: place(k)[1] }, plot.layer)]));
      if (plot.points.has(data.chosen)) {
        const [cx, cy] = place(data.chosen);
        shape("circle", { class: "chosen", r: 10, cx, cy }, plot.layer);
      }
    },
    show: (plot, k) => plot.points.forEach((point, at) => point.setAttribute("class", at === k ? "score now" : "score")),
    tip(plot, px) {
      const k = known.reduce((best, each) =>
        (Math.abs(plot.x(places[each]) - px) < Math.abs(plot.x(places[best]) - px) ? each : best));
      return `${powerText(k)}\n${fixed(score(k), 3)} ± ${fixed(error(k), 3)} nats per row`;
    },
    key: () => [["circle", "score now", "shown"], ["circle", "chosen", "chosen"]],
    say: (k) => `Log-likelihood per left-out row: ${known.map((each) =>
      `${fixed(score(each), 3)} ${atPower(each)}`).join(", ")}. Shown: ${powerText(k)}.`,
  };
}
