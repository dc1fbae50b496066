"use strict";
(() => {
  const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const font = "12px system-ui, sans-serif", pen = document.createElement("canvas").getContext("2d");
  pen.font = font;
  const text = v => Math.abs(v) >= 1e6 || v && Math.abs(v) < 1e-4 ? v.toExponential() : v.toLocaleString("en", { maximumSignificantDigits: 6 });
  const width = t => pen.measureText(t || "").width;

  // names writes the steps of an axis, round numbers first, and leaves out those that would touch another.
  const names = (u, ticks, key, axis) => {
    const kept = [], out = ticks.map(() => ""), round = v => Math.abs(Math.log10(Math.abs(v) || 1) % 1) < 1e-9 ? 0 : 1;
    const order = ticks.map((v, i) => i).sort((a, b) => axis.Log && round(ticks[a]) - round(ticks[b]) || a - b);
    for (const i of order) {
      const name = axis.Names && axis.Ticks ? axis.Names[axis.Ticks.indexOf(ticks[i])] : text(ticks[i]);
      const at = u.valToPos(ticks[i], key), half = key == "x" ? width(name) / 2 + 5 : 8;
      if (kept.some(k => Math.abs(k[0] - at) < k[1] + half)) continue;
      kept.push([at, half]);
      out[i] = name;
    }
    return out;
  };

  // aligned puts points into rows of one column for each curve; bounds of intervals get columns of their own.
  const aligned = c => {
    const columns = [[]], add = (row, k, v) => { (columns[k] ||= [])[row] = v; };
    const points = c.Series.flatMap((s, i) => (s.Points || []).map((p, k) => ({ p, i, k })));
    points.sort((a, b) => a.p[0] - b.p[0] || a.k - b.k || a.i - b.i);
    let row = -1, taken = new Set();
    for (const { p, i } of points) {
      if (row < 0 || columns[0][row] != p[0] || taken.has(i)) { row++; taken = new Set(); add(row, 0, p[0]); }
      taken.add(i);
      [p[1], p[2] ?? p[1], p[3] ?? p[1]].forEach((v, k) => add(row, 1 + 3 * i + k, v));
    }
    for (let k = 0; k <= 3 * c.Series.length; k++) (columns[k] ||= []).length = row + 1;
    // What interrupts a curve holds until its next point, over the rows of others.
    return columns.map(column => { let v; return Array.from(column, now => v = now === undefined && v !== null ? now : now ?? null); });
  };

  const draw = (c, el) => {
    const values = el.previousElementSibling.querySelectorAll("b");
    const series = [{}], bands = [], axes = [c.X, c.Y];
    c.Series.forEach((s, i) => {
      const colour = () => css("c" + s.Colour), hidden = { points: { show: false }, paths: () => null };
      series.push({
        label: s.Name, stroke: colour, width: 2, dash: [[], [9, 4], [3, 3], [9, 3, 3, 3]][c.Dashes[i] % 4], points: { show: s.Dots || c.Kind == 1, size: 7, fill: colour },
        ...(c.Kind == 1 ? { paths: () => null } : c.Kind == 2 ? { paths: uPlot.paths.bars({ size: [1], align: 1 }), fill: colour } : {}),
      }, { ...hidden }, { ...hidden });
      if (c.Kind == 0) {
        for (const k of [2, 3]) Object.assign(series[3 * i + k], { paths: undefined, stroke: "transparent" });
        bands.push({ series: [3 * i + 3, 3 * i + 2], fill: () => colour() + "40" });
      }
    });
    const size = () => ({ width: el.clientWidth, height: Math.min(320, Math.max(250, el.clientWidth * .55)) });
    const axis = (a, key) => ({
      stroke: () => css("fg"), grid: { stroke: () => css("line"), width: 1 }, ticks: { stroke: () => css("line"), width: 1 },
      label: a.Label, labelFont: font, font, labelSize: 18, space: 45, filter: (u, ticks) => ticks, values: (u, ticks) => names(u, ticks, key, a),
      ...(a.Ticks ? { splits: () => a.Ticks } : {}), ...(key == "y" ? { size: (u, v) => 24 + Math.max(20, ...(v || []).map(width)) } : { size: 34 }),
    });
    const line = (u, x0, y0, x1, y1) => {
      const at = (v, key) => u.valToPos(v, key, true);
      u.ctx.beginPath(); u.ctx.moveTo(at(x0, "x"), at(y0, "y")); u.ctx.lineTo(at(x1, "x"), at(y1, "y")); u.ctx.stroke();
    };
    const over = u => {
      const [x, y] = axes.map(a => [a.Min, a.Max]);
      u.ctx.save();
      u.ctx.beginPath(); u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); u.ctx.clip();
      u.ctx.lineWidth = 1.5 * devicePixelRatio;
      if (c.Kind == 1) c.Series.forEach(s => {
        u.ctx.strokeStyle = css("c" + s.Colour);
        for (const p of s.Points || []) if (p.length > 2) line(u, p[0], p[2], p[0], p[3]);
      });
      u.ctx.strokeStyle = css("fg");
      u.ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      for (const l of c.Limits || []) l.Vertical ? line(u, l.At, y[0], l.At, y[1]) : line(u, x[0], l.At, x[1], l.At);
      if (c.Diagonal) line(u, Math.max(x[0], y[0]), Math.max(x[0], y[0]), Math.min(x[1], y[1]), Math.min(x[1], y[1]));
      u.ctx.restore();
    };
    const show = u => c.Series.forEach((s, i) => {
      const v = u.cursor.idx == null ? null : u.data[1 + 3 * i][u.cursor.idx];
      values[i].textContent = v == null ? "" : text(u.data[0][u.cursor.idx]) + ": " + text(v);
    });
    const scale = a => ({ time: false, distr: a.Log ? 3 : 1, range: [a.Min, a.Max] });
    const u = new uPlot({
      ...size(), series, bands, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: { x: scale(axes[0]), y: scale(axes[1]) }, axes: [axis(axes[0], "x"), axis(axes[1], "y")],
      hooks: { draw: [over], setCursor: [show] },
    }, aligned(c), el);
    const canvas = el.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", c.Title + ": " + c.Y.Label + " against " + c.X.Label);
    new ResizeObserver(() => { if (el.clientWidth) u.setSize(size()); }).observe(el);
    for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", () => u.redraw());
  };

  JSON.parse(document.getElementById("charts").textContent).forEach((c, i) => draw(c, document.getElementById("chart" + i)));
})();
