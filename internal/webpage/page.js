"use strict";
for (const figure of document.querySelectorAll("figure")) {
  const c = JSON.parse(figure.querySelector("script").textContent), el = figure.querySelector("div");
  for (const s of c.Series) s.Points ??= [];
  // Lines of one colour differ by their dashes. Where there are too many lines, each colour has a part of the chart.
  const keys = [...figure.querySelectorAll(".legend i")], colours = [...new Set(c.Series.map((s, i) => keys[i].className))];
  const split = c.Series.length > 4 && c.Series.some(s => s.Points.length > 1), parts = split ? colours.length : 1;
  const used = {};
  figure.classList.toggle("split", split);
  c.Series.forEach((s, i) => {
    s.colour = `var(--${keys[i].className})`;
    s.part = split ? colours.indexOf(keys[i].className) : 0;
    s.nth = used[s.colour] = (used[s.colour] ?? -1) + 1;
    keys[i].classList.toggle("dash", s.nth > 0);
  });
  const scale = (a, values) => {
    const [min, max] = d3.extent(values.filter(v => v != null && (v > 0 || !a.Log)));
    return {
      label: a.Label, labelAnchor: "center", labelArrow: "none", grid: true, type: a.Log ? "log" : "linear",
      tickFormat: a.Log ? ",~r" : undefined,
      domain: [a.Min || (a.Log ? min / 1.05 || 1 : Math.min(0, min * 1.05) || 0), a.Max || max * 1.05 || (a.Log ? 10 : 1)],
    };
  };
  const points = c.Series.flatMap(s => s.Points), at = vertical => (c.Limits ?? []).filter(l => l.Vertical == vertical).map(l => l.At);
  const xs = points.map(p => p[0]).concat(at(true)), ys = points.flatMap(p => p.slice(1)).concat(at(false));
  const x = scale(c.X, c.Diagonal ? xs.concat(ys) : xs), y = scale(c.Y, c.Diagonal ? xs.concat(ys) : ys);
  const dashed = { stroke: "currentColor", strokeDasharray: "6 4", strokeWidth: 1.5 };
  const draw = width => {
    const columns = split ? Math.max(1, Math.floor(width / 420)) : 1;
    const marks = c.Series.flatMap(s => {
      const facet = { fx: () => s.part % columns, fy: () => Math.floor(s.part / columns) }, to = { ...facet, x: "0", clip: true };
      const bounds = { ...to, y1: "2", y2: "3" }, bounded = s.Points.filter(p => p.length > 2), broken = s.Points.some(p => p[1] == null);
      return [
        c.Scatter ? Plot.ruleX(bounded, { ...bounds, stroke: s.colour }) : Plot.areaY(bounded, { ...bounds, fill: s.colour, fillOpacity: .2 }),
        !c.Scatter && Plot.line(s.Points, { ...to, y: "1", stroke: s.colour, strokeWidth: 2, strokeDasharray: ["", "9 4", "3 3", "9 3 3 3"][s.nth % 4] }),
        (c.Scatter || s.Points.length < 20 && !broken) && Plot.dot(s.Points, { ...to, y: "1", fill: s.colour }),
        Plot.tip(s.Points, Plot.pointer({ ...to, y: "1", title: p => `${s.Name}\n${p[0]}: ${p[1]}` })),
        split && !s.nth && Plot.text([s.Colour || s.Name], { ...facet, frameAnchor: "top-left", dx: 6, dy: 6 }),
      ];
    });
    marks.push(Plot.ruleX(at(true), dashed), Plot.ruleY(at(false), dashed));
    if (c.Diagonal) marks.push(Plot.line([x.domain, x.domain].map((d, i) => [d[i], d[i]]), dashed));
    const svg = Plot.plot({
      width, height: 60 + Math.ceil(parts / columns) * (split ? 180 : Math.min(260, Math.max(190, width * .5))), marks: marks.filter(Boolean),
      x: { ...x, labelOffset: 36 }, y: { ...y, labelOffset: 62 }, fx: { axis: null }, fy: { axis: null }, marginTop: 12, marginLeft: 66, marginBottom: 44,
    });
    svg.querySelectorAll("g[aria-label]").forEach(g => g.removeAttribute("aria-label")); // names of parts of an image
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", c.Title + ": " + c.Y.Label + " against " + c.X.Label);
    el.replaceChildren(svg);
  };
  let drawn = 0;
  new ResizeObserver(() => { if (el.clientWidth && el.clientWidth != drawn) draw(drawn = el.clientWidth); }).observe(el);
}
