// The page: the slider moves the plots, the scores and the table of rows.

const page = { at: data.chosen, row: -1, pinned: -1, plots: [], table: null };

/** Mark the row under the pointer or the focus, or else the pinned one. */
page.hover = (row) => {
  const wanted = row >= 0 ? row : page.pinned;
  if (wanted === page.row) return;
  page.row = wanted;
  page.table.mark(wanted, page.pinned);
  for (const plot of page.plots) plot.mark(wanted);
};

/** Keep a row marked; pinning the same row again, or none, removes the mark. */
page.pin = (row) => {
  page.pinned = row === page.pinned ? -1 : row;
  page.row = -2;
  page.hover(row);
  if (page.pinned >= 0) {
    const line = page.table.lines[page.pinned];
    const holder = byId("row-table");
    const inner = line.offsetTop - holder.clientHeight / 2;
    if (!line.contains(document.activeElement)) holder.scrollTo({ top: inner });
  }
};

page.show = (k) => {
  page.at = k;
  const slider = byId("alpha");
  slider.value = k;
  slider.setAttribute("aria-valuetext", `${powerText(k)}${k === data.chosen ? ", chosen" : ""}`);
  byId("status").textContent = statusText(k);
  for (const [at, tick] of [...byId("ticks").children].entries()) tick.classList.toggle("now", at === k);
  for (const plot of page.plots) plot.show(k);
  page.table?.show();
  showScores(k);
};

function statusText(k) {
  const { scores } = data.fits[k];
  const chosen = k === data.chosen ? " (chosen)" : "";
  const first = `${isMixture(k) ? "Mixture" : powerText(k)}${chosen}: log-likelihood ${fixed(scores.log_likelihood, 3)} per left-out row; `;
  return first + (isClass
    ? `${percent(scores.accuracy, 1)} right, mean confidence ${percent(scores.confidence, 1)}.`
    : `90\u00a0% intervals cover ${percent(scores.coverage_90, 1)}, RMSE ${number(scores.rmse, 3)}.`);
}

function showScores(k) {
  const shared = ["α", "log-likelihood", "±", "not left out"];
  const header = isClass
    ? [...shared, "right", "confidence", "calibration error", "converged"]
    : [...shared, "50 % cover", "80 % cover", "90 % cover", "95 % cover", "calibration error", "RMSE", "converged"];
  const lines = data.fits.map(({ scores }, at) => [
    tickText(at) + (at === data.chosen ? " (chosen)" : ""),
    ...["log_likelihood", "log_likelihood_error", "training_log_likelihood"].map((name) => fixed(scores[name], 3)),
    ...(isClass
      ? [percent(scores.accuracy, 1), percent(scores.confidence, 1)]
      : [50, 80, 90, 95].map((level) => percent(scores[`coverage_${level}`], 1))),
    fixed(scores.calibration_error, 3),
    ...(isClass ? [] : [number(scores.rmse)]),
    scores.converged ? "yes" : "no",
  ]);
  plainTable(byId("scores"), "Scores at every α", header, lines, k);
}

function placeTicks() {
  data.alphas.forEach((_, at) => {
    const tick = element("span", isMixture(at) ? { class: "mixture" } : {}, tickText(at), byId("ticks"));
    tick.style.left = `${(100 * at) / Math.max(1, data.alphas.length - 1)}%`;
    if (at === data.chosen) element("small", {}, "chosen", tick);
  });
}

function fillTexts() {
  document.title = `${data.target}: α explored`;
  byId("target").textContent = data.target;
  const what = { number: "a number", count: "a count", class: `one of ${data.num_classes} classes` }[data.kind];
  const count = (size, noun) => `${size.toLocaleString("en")} ${noun}${size === 1 ? "" : "s"}`;
  byId("facts").textContent = `${what}, predicted from ${count(data.num_columns, "column")} in ${count(data.rows_in_all, "row")}`;
  byId("scores-caption").textContent =
    `On ${count(data.scored, "row")}, each predicted without itself (approximately, without refitting). ` +
    "Log-likelihood is in nats per row, with its standard error; higher is better." +
    (data.kind === "count" ? " Intervals end at whole counts, so they cover more than their level." : "");
  const some = numRows < data.rows_in_all ? `${numRows} evenly spread rows of ${data.rows_in_all.toLocaleString("en")}. ` : "";
  byId("rows-caption").textContent = some +
    "Click a heading to sort. Point at a row, or move with the arrow keys, to find it in the plots; Enter " +
    `keeps it marked. Noise and doubt are ${isClass ? "in nats" : `standard deviations of ${data.target}`}.`;
  const notes = [
    "α controls how the model is fitted: 0 is variational Bayes, 1 is close to expectation propagation, " +
      "and a negative α seeks a single mode. The best value depends on the table.",
    "A larger α usually gives more doubt and less noise.",
    ...data.notes,
  ];
  for (const text of notes) element("li", {}, text, byId("notes"));
}

function start() {
  fillTexts();
  placeTicks();
  const parent = byId("plots");
  const along = alongPlot();
  const specs = isClass
    ? [along, scorePlot(), doubtPlot(), reliabilityPlot(), histogramPlot()]
    : [along, scorePlot(), predictedPlot(), doubtPlot(), calibrationPlot(), histogramPlot()];
  page.plots = specs.map((spec) => new Plot(spec, parent));
  page.table = new RowTable(byId("row-table"));
  for (const plot of page.plots) plot.draw();
  along.choose.addEventListener("change", () => page.plots[0].draw());
  const slider = byId("alpha");
  slider.max = data.alphas.length - 1;
  slider.addEventListener("input", () => page.show(Number(slider.value)));
  page.show(data.chosen);
  new ResizeObserver(() => {
    for (const plot of page.plots) if (Math.floor(plot.holder.clientWidth) !== plot.width) plot.draw();
  }).observe(parent);
}

start();
